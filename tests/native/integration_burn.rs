//! burn's datasets and loaders as ours, and ours as burn's.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataloader::split::split_dataloader;
use burn_core::data::dataloader::{DataLoader as BurnDataLoader, DataLoaderBuilder};
use burn_core::data::dataset::transform::{Mapper, MapperDataset, PartialDataset};
use burn_core::data::dataset::{Dataset as BurnDataset, DatasetError, InMemDataset};
use burn_core::tensor::{DType as BurnDType, Device, Int, Tensor};
use sluicegate::internal::{Array, Segment};
use sluicegate::{
    BurnLoader, DType, DataLoader, Error, Field, FromBurn, InMemory, ItemDataset, ItemDatasetExt, ItemLoader,
    LastBatch, LoaderState, Remainder, Shard, ToBurn, burn_collate,
};

/// The numbers below a hundred, of which 13 cannot be read; counts how they are read.
#[derive(Default)]
struct Unlucky {
    batched: AtomicUsize,
}

#[derive(Debug, thiserror::Error)]
#[error("number {0} is unlucky")]
struct BadLuck(usize);

impl ItemDataset for Unlucky {
    type Item = usize;

    fn len(&self) -> usize {
        100
    }

    fn item(&self, index: usize) -> sluicegate::Result<usize> {
        if index == 13 { Err(Error::User(Box::new(BadLuck(index)))) } else { Ok(index) }
    }

    fn items(&self, indices: &[usize]) -> sluicegate::Result<Vec<usize>> {
        self.batched.fetch_add(1, Ordering::Relaxed);
        indices.iter().map(|&index| self.item(index)).collect()
    }
}

/// A burn dataset with its own error type.
struct Theirs;

impl BurnDataset<usize, BadLuck> for Theirs {
    fn get(&self, index: usize) -> Result<usize, BadLuck> {
        if index == 3 { Err(BadLuck(index)) } else { Ok(index * 10) }
    }

    fn len(&self) -> usize {
        5
    }
}

struct Double;

impl Mapper<usize, usize> for Double {
    fn map(&self, number: &usize) -> usize {
        number * 2
    }
}

struct Items;

impl<I: Send + Sync> Batcher<I, Vec<I>> for Items {
    fn batch(&self, items: Vec<I>, _device: &Device) -> Vec<I> {
        items
    }
}

fn numbers() -> Vec<usize> {
    (0..100).collect()
}

fn loader(threads: usize) -> BurnLoader<Vec<usize>> {
    let settings =
        move |loader: sluicegate::ItemLoaderBuilder<'static, _>| loader.batch_size(8).shuffle(7).threads(threads);
    BurnLoader::of_items(numbers(), Items, Device::flex(), settings).unwrap()
}

fn all<O>(loader: &dyn BurnDataLoader<O>) -> Vec<O> {
    loader.iter().collect::<Result<_, _>>().unwrap()
}

#[test]
fn our_items_are_a_dataset_of_burns() {
    let ours = Arc::new(Unlucky::default());
    let theirs = ToBurn(Arc::clone(&ours));
    assert_eq!((BurnDataset::len(&theirs), BurnDataset::get(&theirs, 7).unwrap()), (100, 7));
    assert_eq!(BurnDataset::get_many(&theirs, vec![99, 0]).unwrap(), [99, 0]);
    let error = BurnDataset::get(&theirs, 13).unwrap_err();
    let source = error.source().unwrap().downcast_ref::<Error>().unwrap();
    assert!(matches!(source, Error::User(user) if user.downcast_ref::<BadLuck>().is_some()), "{source:?}");

    // Their loader and their adaptors accept it, and read it batch by batch.
    ours.batched.store(0, Ordering::Relaxed);
    let loader = DataLoaderBuilder::new(Items).batch_size(10).build(PartialDataset::new(theirs, 20, 60));
    assert_eq!(all(&*loader).concat(), (20..60).collect::<Vec<_>>());
    assert!(ours.batched.load(Ordering::Relaxed) >= 4);
}

#[test]
fn their_items_are_a_dataset_of_ours() {
    let doubled = MapperDataset::new(InMemDataset::new(numbers()), Double);
    let loader = ItemLoader::builder(FromBurn::new(doubled), |items: Vec<usize>| Ok(items));
    let loader = loader.batch_size(10).shuffle(7).threads(2).build().unwrap();
    let mut items = loader.epoch(0).unwrap().collect::<Result<Vec<_>, _>>().unwrap().concat();
    items.sort_unstable();
    assert_eq!(items, (0..200).step_by(2).collect::<Vec<_>>());

    let theirs = FromBurn::new(Theirs);
    assert_eq!(theirs.items(&[4, 0]).unwrap(), [40, 0]);
    let error = theirs.item(3).unwrap_err();
    assert!(matches!(&error, Error::User(user) if user.downcast_ref::<BadLuck>().is_some()), "{error:?}");
    for error in [theirs.item(5).unwrap_err(), theirs.items(&[5]).unwrap_err()] {
        assert!(matches!(error, Error::IndexOutOfRange { index: 5, len: 5 }), "{error:?}");
    }
    let dynamic: Arc<dyn BurnDataset<usize>> = Arc::new(ToBurn(numbers()));
    assert_eq!(FromBurn::new(dynamic).item(5).unwrap(), 5);
}

#[test]
fn their_batcher_is_a_collate() {
    let loader = ItemLoader::builder(numbers(), burn_collate(Items, Device::flex())).batch_size(50).build().unwrap();
    assert_eq!(loader.epoch(0).unwrap().next().unwrap().unwrap(), (0..50).collect::<Vec<_>>());
}

#[test]
fn each_iterator_is_the_next_epoch_whatever_the_threads() {
    let own = ItemLoader::builder(numbers(), |items: Vec<usize>| Ok(items)).batch_size(8).shuffle(7).build().unwrap();
    let epoch = |epoch| own.epoch(epoch).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    for threads in [0, 2] {
        let loader = loader(threads);
        assert!(loader.state().is_none());
        for number in 0..3 {
            assert_eq!(all(&loader), epoch(number));
        }
        assert_eq!(all(&loader.starting_at(7)), epoch(7));
    }
    // On another device the epochs continue, and so does the count here.
    let here = loader(0);
    let there = here.to_device(&Device::flex());
    assert_eq!((all(&*there), all(&here), all(&*there)), (epoch(0), epoch(1), epoch(2)));
    assert_eq!(here.state().unwrap().epoch(), 2);
    // Of two iterators, a state is about the one that began last.
    let (mut older, mut younger) = (here.iter(), here.iter());
    assert!(younger.next().is_some() && older.next().is_some() && older.next().is_some());
    let state = here.state().unwrap();
    assert_eq!((state.epoch(), state.batches_received()), (4, 1));
}

#[test]
fn a_mid_epoch_state_resumes() {
    let first = loader(2);
    all(&first);
    let mut batches: Vec<Vec<usize>> = first.iter().take(5).map(Result::unwrap).collect();
    let saved = first.state().unwrap().to_json();
    let second = loader(0);
    second.resume(&LoaderState::from_json(&saved).unwrap()).unwrap();
    let mut rest = second.iter();
    assert_eq!(rest.progress().items_processed, 40);
    batches.extend(rest.by_ref().map(Result::unwrap));
    assert!(rest.progress().is_completed());
    let whole = loader(0);
    all(&whole);
    assert_eq!(batches, all(&whole));
    drop(rest);
    assert_eq!(all(&second), all(&whole), "then the next epoch");

    let other = BurnLoader::of_items(vec![1, 2], Items, Device::flex(), |loader| loader).unwrap();
    let error = other.resume(&LoaderState::from_json(&saved).unwrap()).unwrap_err();
    assert!(matches!(error, Error::State { .. }), "{error:?}");
}

#[test]
fn slices_are_loaders_of_a_part_and_together_of_all() {
    let loader: Arc<dyn BurnDataLoader<Vec<usize>>> = Arc::new(loader(1));
    let parts = split_dataloader(Arc::clone(&loader), &[Device::flex(), Device::flex(), Device::flex()]);
    assert_eq!(parts.iter().map(|part| part.num_items()).collect::<Vec<_>>(), [33, 33, 34]);
    let mut seen = BTreeSet::new();
    for (part, start) in parts.iter().zip([0, 33, 66]) {
        let epochs = [all(&**part), all(&**part)];
        assert_ne!(epochs[0], epochs[1], "each epoch has another order");
        assert_eq!(epochs[0][0].len(), 8, "batches are as large as before");
        let items: BTreeSet<usize> = epochs[0].concat().into_iter().collect();
        assert_eq!(items, (start..start + part.num_items()).collect());
        seen.extend(items);
    }
    assert_eq!(seen.len(), 100);
    let inner = loader.slice(10, 50).slice(5, 500);
    assert_eq!(all(&*inner).concat().into_iter().collect::<BTreeSet<_>>(), (15..50).collect());
    assert_eq!((all(&*loader.slice(60, 40)).len(), loader.slice(200, 300).num_items()), (0, 0));
}

#[test]
fn an_items_draws_are_equal_in_every_slice() {
    let keys = (0..40_usize).collect::<Vec<_>>().map_random(|item, key| Ok(item + 1000 * (key % 1000) as usize));
    let loader = BurnLoader::of_items(keys, Items, Device::flex(), |loader| loader.batch_size(8).seed(7)).unwrap();
    let whole = all(&loader).concat();
    let parts = [loader.slice(0, 20), loader.slice(20, 40)];
    // The slices continue with the epoch after the one that was read.
    let again = loader.iter().collect::<Result<Vec<_>, _>>().unwrap().concat();
    assert_ne!(whole, again);
    assert_eq!(parts.iter().flat_map(|part| all(&**part).concat()).collect::<Vec<_>>(), again);
}

#[test]
fn items_are_counted_as_they_come() {
    let settings = |loader: sluicegate::ItemLoaderBuilder<'static, _>| {
        let shard = Shard::new(1, 3).unwrap();
        loader.batch_size(8).last_batch(LastBatch::Drop).shard(shard, Remainder::Exact)
    };
    let dropped = BurnLoader::of_items(numbers(), Items, Device::flex(), settings).unwrap();
    let mut batches = dropped.iter();
    batches.next().unwrap().unwrap();
    let progress = batches.progress();
    assert_eq!((progress.items_processed, progress.items_total, all(&dropped).concat().len()), (8, 32, 32));
    assert_eq!(dropped.num_items(), 100, "what is split among devices are the items of the dataset");
    let kept = loader(0);
    let mut batches = kept.iter();
    let mut processed = Vec::new();
    while batches.next().is_some() {
        processed.push(batches.progress().items_processed);
        assert_eq!(batches.progress().items_total, 100);
    }
    assert_eq!(processed, (1..=13).map(|batch| (batch * 8).min(100)).collect::<Vec<_>>());
}

#[test]
fn a_failed_item_is_an_error_at_its_position() {
    let loader =
        BurnLoader::of_items(Unlucky::default(), Items, Device::flex(), |loader| loader.batch_size(10)).unwrap();
    let batches: Vec<Result<Vec<usize>, DatasetError>> = loader.iter().collect();
    assert_eq!(batches.iter().map(Result::is_ok).collect::<Vec<_>>(), (0..10).map(|n| n != 1).collect::<Vec<_>>());
    let source = batches[1].as_ref().unwrap_err().source().unwrap().downcast_ref::<Error>().unwrap();
    assert!(matches!(source, Error::User(_)), "{source:?}");

    let refused = BurnLoader::of_items(numbers(), Items, Device::flex(), |loader| loader.batch_size(0)).err().unwrap();
    assert!(refused.to_string().contains("batch_size"), "{refused}");
    // burn's method returns no error, so the error comes with the first batch, and only once.
    let too_long = Arc::new(sluicegate::SequentialSampler::new(100));
    let settings = move |loader: sluicegate::ItemLoaderBuilder<'static, _>| loader.sampler(Arc::clone(&too_long) as _);
    let whole = BurnLoader::of_items(numbers(), Items, Device::flex(), settings).unwrap();
    assert_eq!(all(&whole).len(), 100);
    let errors = whole.slice(0, 98).iter().filter(Result::is_err).count();
    assert_eq!(errors, 2, "a sampler for another length names what is not there");
}

#[test]
fn fields_become_tensors_on_the_device_of_the_loader() {
    let points = InMemory::from_vec("point", (0..200).map(|n| n as f32).collect(), [2]).unwrap();
    let to_device = |batch: sluicegate::Batch, device: &Device| {
        Ok(Tensor::<2>::from_data(batch.field("point")?.to_burn()?, device))
    };
    let loader = BurnLoader::of_fields(points, to_device, Device::flex(), |loader| loader.batch_size(64).threads(2));
    let loader = loader.unwrap().to_device(&Device::flex().autodiff());
    let batches = all(&*loader.slice(1, 100));
    assert_eq!(batches.iter().map(Tensor::dims).collect::<Vec<_>>(), [[64, 2], [35, 2]]);
    assert!(batches[0].is_autodiff());
    assert_eq!(batches[1].clone().into_data().try_to_vec::<f32>().unwrap()[..2], [130.0, 131.0]);
}

#[test]
fn data_types_are_kept_and_unsupported_ones_refused() {
    let of = |dtype: DType| {
        let bytes: Vec<u8> = (0..6 * dtype.bytes()).map(|byte| (byte % 2) as u8).collect();
        let array = Array::contiguous(Arc::new(Segment::from_vec(bytes)), 0, dtype.bytes(), &[3, 2]).unwrap();
        let dataset = InMemory::new(vec![(Field::new("x", dtype, [2]), array)]).unwrap();
        DataLoader::builder(dataset).batch_size(3).build().unwrap().epoch(0).unwrap().next().unwrap().unwrap()
    };
    for (dtype, theirs) in [
        (DType::UInt8, BurnDType::U8),
        (DType::Int8, BurnDType::I8),
        (DType::UInt16, BurnDType::U16),
        (DType::Int16, BurnDType::I16),
        (DType::UInt32, BurnDType::U32),
        (DType::Int32, BurnDType::I32),
        (DType::UInt64, BurnDType::U64),
        (DType::Int64, BurnDType::I64),
        (DType::Float16, BurnDType::F16),
        (DType::BFloat16, BurnDType::BF16),
        (DType::Float32, BurnDType::F32),
        (DType::Float64, BurnDType::F64),
    ] {
        let batch = of(dtype);
        let data = batch.field("x").unwrap().to_burn().unwrap();
        assert_eq!((data.dtype(), data.shape().to_vec(), data.as_bytes()), (theirs, vec![3, 2], batch.bytes(0)));
    }
    let flags = of(DType::Bool).field("x").unwrap().to_burn().unwrap();
    assert_eq!(flags.try_to_vec::<bool>().unwrap(), [false, true, false, true, false, true]);
    let error = of(DType::Complex64).field("x").unwrap().to_burn().unwrap_err().to_string();
    assert!(error.contains("`x` holds complex64, for which burn has no type"), "{error}");
    let labels = Tensor::<2, Int>::from_data(of(DType::UInt8).field("x").unwrap().to_burn().unwrap(), &Device::flex());
    assert_eq!(labels.sum().into_scalar::<i64>(), 3);
}
