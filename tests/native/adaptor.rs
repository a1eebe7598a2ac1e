//! Adaptors of datasets: each keeps the contract, and preserves the capabilities of its dataset.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use sluicegate::internal::{Array, Fetch, FetchSamples, IndexBatch, Ragged, Segment, Slab};
use sluicegate::{
    BatchWriter, BlockSize, Blocks, DType, DataLoader, Dataset, DatasetExt, Error, Field, InMemory, ItemDatasetExt,
    ItemLoader, MixtureSampler, MixtureWeights, RandomSampler, ReadMany, Result, SampleWriter, Sampler, Schema,
    SizesWriter, StackSamples, StopCriteria, Transform, VariableSize, sample_key,
};

use crate::conformance::dataset_conformance;
use crate::datasets::Numbers;

type Samples = Vec<Vec<Vec<u8>>>;

fn numbers(values: impl IntoIterator<Item = u64>) -> Samples {
    values.into_iter().map(|value| vec![value.to_ne_bytes().to_vec()]).collect()
}

fn in_memory(len: u64) -> InMemory {
    InMemory::from_vec("number", (0..len).collect(), []).unwrap()
}

fn words() -> Ragged {
    let array = Array::contiguous(Arc::new(Segment::from_vec(b"abcdef".to_vec())), 0, 1, &[6]).unwrap();
    Ragged::new(Field::variable("word", DType::UInt8, []), array, vec![0, 2, 2, 3, 6]).unwrap()
}

fn word_samples(words: &[&str]) -> Samples {
    words.iter().map(|word| vec![word.as_bytes().to_vec()]).collect()
}

/// A dataset with every optional capability, which counts batched reads.
struct Gifted {
    numbers: InMemory,
    batched: AtomicUsize,
}

impl Gifted {
    fn new(len: u64) -> Arc<Self> {
        Arc::new(Self { numbers: in_memory(len), batched: AtomicUsize::new(0) })
    }
}

impl Dataset for Gifted {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn schema(&self) -> &Schema {
        self.numbers.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let key = into.key();
        self.numbers.read(index, into)?;
        if let Some(key) = key {
            into.field(0).copy_from_slice(&key.to_ne_bytes());
        }
        Ok(())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        Some(self)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        Some(self)
    }

    fn is_random(&self) -> bool {
        true
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        Some(format!("row {index}, field {field}"))
    }
}

impl ReadMany for Gifted {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        self.batched.fetch_add(1, Ordering::Relaxed);
        indices.iter().enumerate().try_for_each(|(row, &index)| self.read(index, &mut into.sample(row)))
    }
}

impl VariableSize for Gifted {
    fn sizes(&self, _indices: &[usize], _into: &mut SizesWriter<'_>) -> Result<()> {
        Ok(())
    }
}

impl Blocks for Gifted {
    fn count(&self) -> usize {
        self.len().div_ceil(4)
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        if index < self.len() {
            visit(index / 4);
        }
    }

    fn size_of(&self, _block: usize) -> BlockSize {
        BlockSize { read: 1, kept: 2, limit: 3 }
    }

    fn announce(&self, _block: usize) {}
}

fn same(dataset: impl DatasetExt) -> impl Dataset {
    let schema = dataset.schema().clone();
    dataset
        .map(schema, |sample, into| {
            (0..sample.fields()).for_each(|field| into.field(field).copy_from_slice(sample.bytes(field)));
            Ok(())
        })
        .unwrap()
}

#[test]
fn a_boxed_dataset_forwards_all_methods() {
    let gifted = Gifted::new(9);
    let shared: Arc<dyn Dataset> = gifted.clone();
    let boxed: Box<dyn Dataset> = Box::new(gifted.clone());
    for dataset in [&gifted as &dyn Dataset, &shared, &boxed, &&*gifted, &Arc::new(Arc::clone(&shared))] {
        assert_eq!((dataset.len(), dataset.is_empty(), dataset.schema()), (9, false, gifted.schema()));
        assert_eq!(dataset.as_blocks().unwrap().count(), 3);
        assert!(dataset.as_read_many().is_some() && dataset.as_variable().is_some() && dataset.is_random());
        assert_eq!(dataset.origin(3, 0).as_deref(), Some("row 3, field 0"));
    }
    dataset_conformance(&Arc::new(in_memory(5)), &numbers(0..5));
    dataset_conformance(&(Box::new(Numbers::new(5)) as Box<dyn Dataset>), &numbers(0..5));
    dataset_conformance(&&words(), &word_samples(&["ab", "", "c", "def"]));
}

/// Adds a number, or the key if there is none.
struct Add(Option<u64>);

impl Transform for Add {
    fn schema(&self, of: &Schema) -> Result<Schema> {
        match of.fields() {
            [field] if field.dtype() == DType::UInt64 => Ok(Schema::new([field.renamed("sum")])),
            _ => Err(Error::InvalidArgument { argument: "dataset", reason: format!("{of} is not a number") }),
        }
    }

    fn apply(&self, sample: &sluicegate::Sample<'_>, into: &mut SampleWriter<'_>) -> Result<()> {
        let added = self.0.or(into.key()).unwrap();
        into.field(0).copy_from_slice(&sample.values::<u64>(0)?[0].wrapping_add(added).to_ne_bytes());
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.0.is_none()
    }
}

#[test]
fn a_transform_reports_its_input_and_randomness() {
    let added = in_memory(4).transform(Add(Some(10))).unwrap();
    assert_eq!(added.schema().to_string(), "(sum: uint64[])");
    dataset_conformance(&added, &numbers(10..14));
    let transforms: [Box<dyn Transform>; 2] = [Box::new(Add(Some(1))), Box::new(Arc::new(Add(Some(2))))];
    for (added, transform) in transforms.into_iter().enumerate() {
        let dataset = Arc::new(Numbers::new(2)).transform(transform).unwrap();
        dataset_conformance(&dataset, &numbers(added as u64 + 1..added as u64 + 3));
    }
    let refused = words().transform(Add(Some(1))).err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "dataset", .. }), "{refused}");

    let drawn = || in_memory(6).transform(Add(None)).unwrap().take(6);
    let refused = DataLoader::builder(drawn()).build().err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "seed", .. }), "{refused}");
    let loader = DataLoader::builder(drawn()).batch_size(6).seed(7).build().unwrap();
    let batch = loader.epoch(3).unwrap().next().unwrap().unwrap();
    let expected: Vec<u64> = (0..6).map(|index| sample_key(7, 3, index).wrapping_add(index)).collect();
    assert_eq!(batch.field("sum").unwrap().view::<u64>().unwrap(), expected);
}

#[test]
fn adaptors_satisfy_the_contract() {
    let tenfold = |dataset: Arc<dyn Dataset>| {
        let schema = Schema::new([Field::new("index", DType::UInt8, [2]), Field::new("tenfold", DType::UInt64, [])]);
        let make = |sample: &sluicegate::Sample<'_>, into: &mut SampleWriter<'_>| {
            into.field(0).fill(sample.index() as u8);
            into.field(1).copy_from_slice(&(sample.values::<u64>(0)?[0] * 10).to_ne_bytes());
            Ok(())
        };
        dataset.map(schema, make).unwrap()
    };
    let expected: Samples = (0..7).map(|n: u8| vec![vec![n; 2], (u64::from(n) * 10).to_ne_bytes().to_vec()]).collect();
    for dataset in [Arc::new(in_memory(7)) as Arc<dyn Dataset>, Arc::new(Numbers::new(7))] {
        dataset_conformance(&tenfold(dataset.clone()), &expected);
        dataset_conformance(&dataset.clone().take(3), &numbers(0..3));
        dataset_conformance(&dataset.clone().take(30), &numbers(0..7));
        dataset_conformance(&dataset.clone().skip(3), &numbers(3..7));
        dataset_conformance(&dataset.clone().skip(usize::MAX), &[]);
        dataset_conformance(&dataset.clone().skip(2).take(3).skip(1), &numbers(3..5));
        let odd = dataset.clone().filter(|sample| Ok(sample.values::<u64>(0)?[0] % 2 == 1)).unwrap();
        dataset_conformance(&odd, &numbers([1, 3, 5]));
        dataset_conformance(&dataset.clone().filter_indices(|index| index > 4), &numbers([5, 6]));
        let order = RandomSampler::new(7, 5).order(0).unwrap();
        let order: Vec<u64> = (0..7).map(|position| order.index_at(position) as u64).collect();
        dataset_conformance(&dataset.clone().shuffle(5), &numbers(order));
        let renamed = InMemory::from_vec("other", (7..14_u64).collect(), []).unwrap();
        let both: Samples =
            numbers(0..7).into_iter().zip(numbers(7..14)).map(|(one, other)| [one, other].concat()).collect();
        let zipped = dataset.clone().zip(renamed).unwrap();
        assert_eq!(zipped.schema().to_string(), "(number: uint64[], other: uint64[])");
        dataset_conformance(&zipped, &both);
    }
    for empty in [&in_memory(0).shuffle(1) as &dyn Dataset, &in_memory(0).take(1), &same(in_memory(0))] {
        dataset_conformance(empty, &[]);
    }
}

#[test]
fn adaptors_keep_samples_of_any_size() {
    let all = ["ab", "", "c", "def"];
    dataset_conformance(&words().skip(1), &word_samples(&all[1..]));
    dataset_conformance(
        &words().filter(|sample| Ok(sample.bytes(0).len() > 1)).unwrap(),
        &word_samples(&["ab", "def"]),
    );
    let lengths = Schema::new([Field::new("length", DType::UInt8, [])]);
    let lengths = words().map(lengths, |sample, into| {
        into.field(0)[0] = sample.values::<u8>(0)?.len() as u8;
        Ok(())
    });
    dataset_conformance(&lengths.unwrap(), &[2, 0, 1, 3].map(|length| vec![vec![length]]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn windows_are_those_of_a_slice(len in 0_u64..40, samples in 1_usize..9, stride in 1_usize..9, batched in any::<bool>()) {
        let dataset: Arc<dyn Dataset> =
            if batched { Arc::new(in_memory(len)) } else { Arc::new(Numbers::new(len as usize)) };
        let windows = dataset.window(samples, stride).unwrap();
        let all: Vec<u64> = (0..len).collect();
        let expected: Samples = all
            .windows(samples)
            .step_by(stride)
            .map(|window| vec![window.iter().flat_map(|number| number.to_ne_bytes()).collect()])
            .collect();
        prop_assert_eq!(windows.as_read_many().is_some(), batched);
        dataset_conformance(&windows, &expected);
        // A window among other fields of a batch, and a window of windows.
        let both = windows.window(2, 1).unwrap();
        let expected: Samples = expected.windows(2).map(|two| vec![two.concat().concat()]).collect();
        dataset_conformance(&both, &expected);
    }
}

#[test]
fn a_mixture_is_the_first_epoch_of_its_sampler() {
    let weights = MixtureWeights::constant([3.0, 1.0]);
    for stop in [StopCriteria::CycleUntilAllDatasetsExhausted, StopCriteria::CycleForever(99)] {
        let order = MixtureSampler::new(&[40, 10], &weights, stop, 7).unwrap().order(0).unwrap();
        let expected = (0..order.len()).map(|position| order.index_at(position) as u64);
        let rare = Arc::new(Numbers::starting_at(40, 10));
        let mixed = in_memory(40).mix(vec![rare], &weights, stop, 7).unwrap();
        assert!(mixed.as_read_many().is_none(), "one part has none");
        dataset_conformance(&mixed, &numbers(expected));
    }
    let floats = Arc::new(InMemory::from_vec("number", vec![1.0_f64], []).unwrap());
    let refused = in_memory(4).mix(vec![floats], &weights, StopCriteria::default(), 7).err().unwrap();
    assert!(matches!(refused, Error::SchemaMismatch { part: 1, .. }), "{refused}");
}

#[test]
fn adaptors_forward_the_capabilities_of_their_dataset() {
    let gifted = Gifted::new(10);
    let plain = || InMemory::from_vec("plain", vec![0_u8; 10], []).unwrap();
    let weights = MixtureWeights::constant([1.0]);
    let all = StopCriteria::AllDatasetsExhausted;
    let adapted: [(&str, Box<dyn Dataset>); 8] = [
        ("map", Box::new(same(gifted.clone()))),
        ("filter", Box::new(gifted.clone().filter_indices(|_| true))),
        ("take", Box::new(gifted.clone().take(10))),
        ("skip", Box::new(gifted.clone().skip(0))),
        ("shuffle", Box::new(gifted.clone().shuffle(3))),
        ("window", Box::new(gifted.clone().window(1, 1).unwrap())),
        ("zip", Box::new(gifted.clone().zip(plain()).unwrap())),
        ("mix", Box::new(gifted.clone().mix(vec![], &weights, all, 7).unwrap())),
    ];
    for (name, dataset) in adapted {
        let blocks = dataset.as_blocks().expect(name);
        assert_eq!((blocks.count(), blocks.size_of(0).limit), (3, 3), "{name}");
        let mut found = Vec::new();
        (0..10).for_each(|index| blocks.blocks_of(index, &mut |block| found.push(block)));
        found.sort_unstable();
        assert_eq!(found, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2], "{name}");
        blocks.announce(1);
        assert!(dataset.is_random() && dataset.origin(0, 0).is_some(), "{name}");
        let before = gifted.batched.load(Ordering::Relaxed);
        let shared: Arc<dyn Dataset> = dataset.into();
        let loader = DataLoader::builder(shared).batch_size(10).seed(4).build().unwrap();
        let read =
            || loader.epoch(0).unwrap().next().unwrap().unwrap().field_at(0).unwrap().view::<u64>().unwrap().to_vec();
        let keys = read();
        assert_eq!(gifted.batched.load(Ordering::Relaxed), before + 1, "{name} reads a batch at once");
        assert!(keys.iter().all(|&key| key > 1000) && keys == read(), "{name} passes on keys: {keys:?}");
    }
}

#[test]
fn samples_of_a_window_have_their_own_keys() {
    let windows = Gifted::new(6).window(3, 3).unwrap();
    let loader = DataLoader::builder(windows).batch_size(2).seed(4).build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let mut keys = batch.field("number").unwrap().view::<u64>().unwrap().to_vec();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 6);
}

#[test]
fn fields_and_items_draw_from_the_same_key() {
    let schema = Schema::new([Field::new("key", DType::UInt64, [])]);
    let drawn = |len| {
        let made = in_memory(len).map_random(schema.clone(), |_, key, into| {
            into.field(0).copy_from_slice(&key.to_ne_bytes());
            Ok(())
        });
        made.unwrap()
    };
    let loader = DataLoader::builder(drawn(20).batch(2).unwrap()).batch_size(3).shuffle(7).build().unwrap();
    let fields: Vec<u64> =
        loader.epoch(4).unwrap().flat_map(|batch| batch.unwrap().to_vec::<u64>(0).unwrap()).collect();
    let items = vec![(); 20].map_random(|(), key| Ok(key)).batch(2).unwrap();
    let loader = ItemLoader::builder(items, |pairs: Vec<Vec<u64>>| Ok(pairs.concat())).batch_size(3).shuffle(7);
    let items = loader.build().unwrap().epoch(4).unwrap().collect::<Result<Vec<_>>>().unwrap().concat();
    assert_eq!(fields, items);
    // Without a seed there is no key: neither the loader nor the dataset invents one.
    let refused = |argument, error| matches!(error, Error::InvalidArgument { argument: of, .. } if of == argument);
    assert!(refused("seed", DataLoader::builder(drawn(3)).build().err().unwrap()));
    assert!(refused("dataset", drawn(3).filter(|_| Ok(true)).err().unwrap()));
    let batch = FetchSamples::new(Arc::new(drawn(3)), Arc::new(StackSamples), Arc::new(Slab::new(1)));
    let asked = IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![1], draws: None };
    assert!(refused("keys", batch.fetch(&asked).err().unwrap()));
}

#[test]
fn invalid_adaptors_are_refused() {
    let argument = |error: Error| match error {
        Error::InvalidArgument { argument, .. } => argument,
        other => panic!("{other}"),
    };
    let variable = Schema::new([Field::variable("text", DType::UInt8, [])]);
    assert_eq!(argument(in_memory(3).map(variable, |_, _| Ok(())).err().unwrap()), "schema");
    assert_eq!(argument(in_memory(3).window(0, 1).err().unwrap()), "len");
    assert_eq!(argument(in_memory(3).window(1, 0).err().unwrap()), "stride");
    assert_eq!(argument(words().window(1, 1).err().unwrap()), "dataset");
    assert_eq!(argument(in_memory(3).batch(0).err().unwrap()), "size");
    assert_eq!(argument(Gifted::new(3).filter(|_| Ok(true)).err().unwrap()), "dataset");
    let error = in_memory(3).zip(in_memory(3)).err().unwrap();
    assert!(error.to_string().contains("`number`"), "{error}");
    let refused = in_memory(3).zip(InMemory::from_vec("x", vec![0_u8; 4], []).unwrap()).err();
    assert!(matches!(refused, Some(Error::LengthMismatch { first_len: 3, other_len: 4, .. })));
    let error = in_memory(3).filter(|sample| sample.values::<f32>(0).map(|_| true)).err().unwrap();
    assert!(error.to_string().contains("`number` holds uint64, not float32"), "{error}");
    assert_eq!(argument(in_memory(3).filter(|sample| sample.values::<u64>(1).map(|_| true)).err().unwrap()), "field");
}

#[test]
fn an_error_of_a_closure_is_that_of_its_batch() {
    let schema = Schema::new([Field::new("x", DType::UInt8, [])]);
    let dataset = in_memory(6).map(schema, |sample, _| match sample.index() {
        3 => Err(Error::User("three".into())),
        _ => Ok(()),
    });
    let loader = DataLoader::builder(dataset.unwrap()).batch_size(2).build().unwrap();
    let outcomes: Vec<_> =
        loader.epoch(0).unwrap().map(|batch| batch.map(drop).map_err(|error| error.to_string())).collect();
    assert_eq!(outcomes, [Ok(()), Err("three".to_owned()), Ok(())]);
}
