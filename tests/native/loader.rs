//! The loader: every epoch has its sampler's order, however it is fetched and wherever it is stopped and resumed.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{
    BatchSampler, Batches, DataLoader, DataLoaderBuilder, Dataset, Delivery, EpochBatches, EpochOrder, Error, InMemory,
    LastBatch, LoaderState, RandomSampler, Result, Sampler, SequentialSampler,
};

use crate::datasets::Numbers;
use crate::own_process::{NO_THREADS, alone, resident_bytes};

/// A loader's settings, except those that must not change anything.
#[derive(Debug, Clone, Copy)]
struct Setting {
    len: usize,
    batch_size: usize,
    last_batch: LastBatch,
    seed: Option<u64>,
}

/// How the batches are fetched.
#[derive(Debug, Clone, Copy)]
struct Means {
    threads: usize,
    prefetch: usize,
    delivery: Delivery,
    batched: bool,
}

const HERE: Means = Means { threads: 0, prefetch: 2, delivery: Delivery::InOrder, batched: true };

impl Setting {
    fn loader(self, means: Means) -> DataLoader {
        let dataset: Arc<dyn Dataset> = if means.batched {
            Arc::new(InMemory::from_vec("number", (0..self.len as u64).collect(), []).unwrap())
        } else {
            Arc::new(Numbers::new(self.len))
        };
        let builder = DataLoader::builder(dataset).batch_size(self.batch_size).last_batch(self.last_batch);
        let builder = builder.threads(means.threads).prefetch(means.prefetch).delivery(means.delivery);
        match self.seed {
            Some(seed) => builder.shuffle(seed).build().unwrap(),
            None => builder.build().unwrap(),
        }
    }

    /// Returns the batches of an epoch, computed from the sampler alone.
    fn model(self, epoch: u64) -> Vec<Vec<u64>> {
        let sampler: Arc<dyn Sampler> = match self.seed {
            Some(seed) => Arc::new(RandomSampler::new(self.len, seed)),
            None => Arc::new(SequentialSampler::new(self.len)),
        };
        let order = BatchSampler::new(sampler, self.batch_size, self.last_batch).unwrap().order(epoch).unwrap();
        let mut indices = Vec::new();
        (0..order.len())
            .map(|batch| {
                order.indices(batch, &mut indices);
                indices.iter().map(|&index| index as u64).collect()
            })
            .collect()
    }
}

fn values(batches: impl Iterator<Item = Result<sluicegate::Batch>>) -> Vec<Vec<u64>> {
    batches.map(|batch| batch.unwrap().to_vec(0).unwrap()).collect()
}

/// Returns `batches` sorted, for tests in which their order does not matter.
fn sorted(mut batches: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    batches.sort();
    batches
}

fn setting() -> impl Strategy<Value = Setting> {
    let last_batch = prop::sample::select(vec![LastBatch::Keep, LastBatch::Drop]);
    (0_usize..120, 1_usize..20, last_batch, any::<Option<u64>>())
        .prop_map(|(len, batch_size, last_batch, seed)| Setting { len, batch_size, last_batch, seed })
}

fn means() -> impl Strategy<Value = Means> {
    let delivery = prop::sample::select(vec![Delivery::InOrder, Delivery::AsCompleted]);
    (0_usize..5, 1_usize..4, delivery, any::<bool>()).prop_map(|(threads, prefetch, delivery, batched)| Means {
        threads,
        prefetch,
        delivery,
        batched,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_epoch_follows_its_sampler(setting in setting(), means in means(), epoch in 0_u64..1000) {
        let loader = setting.loader(means);
        for epoch in [epoch, epoch + 1, epoch] {
            let (batches, model) = (loader.epoch(epoch)?, setting.model(epoch));
            prop_assert_eq!(batches.len(), model.len());
            match means.delivery {
                Delivery::InOrder => prop_assert_eq!(values(batches), model),
                Delivery::AsCompleted => prop_assert_eq!(sorted(values(batches)), sorted(model)),
            }
        }
    }

    #[test]
    fn an_epoch_resumes_from_any_position(setting in setting(), before in means(), after in means()) {
        let model = setting.model(5);
        let (first, second) = (setting.loader(before), setting.loader(after));
        for left_at in 0..=model.len() {
            let mut batches = first.epoch(5)?;
            let mut seen = values(batches.by_ref().take(left_at));
            prop_assert_eq!(batches.state().batches_received(), left_at as u64);
            let state = LoaderState::from_json(&batches.state().to_json())?;
            prop_assert_eq!(&state, &batches.state());
            let rest = second.resume(&state)?;
            prop_assert_eq!(rest.len(), model.len() - left_at);
            let rest = values(rest);
            if before.delivery == Delivery::InOrder && after.delivery == Delivery::InOrder {
                prop_assert_eq!(&rest, &model[left_at..]);
            }
            seen.extend(rest);
            prop_assert_eq!(sorted(seen), sorted(model.clone()), "nothing is lost and nothing comes twice");
        }
    }
}

#[test]
fn epochs_differ_and_threads_do_not() {
    let setting = Setting { len: 1000, batch_size: 32, last_batch: LastBatch::Keep, seed: Some(7) };
    let expected: Vec<_> = (0..3).map(|epoch| values(setting.loader(HERE).epoch(epoch).unwrap())).collect();
    assert!(expected[0] != expected[1] && expected[1] != expected[2] && expected[0] != expected[2]);
    for threads in [0, 1, 2, 4] {
        let loader = setting.loader(Means { threads, ..HERE });
        for (epoch, expected) in expected.iter().enumerate() {
            assert_eq!(&values(loader.epoch(epoch as u64).unwrap()), expected, "{threads} threads");
        }
    }
}

#[test]
fn epochs_of_one_loader_can_run_side_by_side() {
    let setting = Setting { len: 300, batch_size: 7, last_batch: LastBatch::Keep, seed: Some(7) };
    let loader = setting.loader(Means { threads: 2, ..HERE });
    let (first, second) = (loader.epoch(0).unwrap(), loader.epoch(1).unwrap());
    let (first, second): (Vec<_>, Vec<_>) = first.zip(second).unzip();
    assert_eq!(values(first.into_iter()), setting.model(0));
    assert_eq!(values(second.into_iter()), setting.model(1));
}

#[test]
fn batches_that_are_kept_stay_as_they_were() {
    let setting = Setting { len: 20_000, batch_size: 4, last_batch: LastBatch::Keep, seed: Some(7) };
    for threads in [0, 2] {
        let loader = setting.loader(Means { threads, ..HERE });
        let kept: Vec<_> = (0..2).flat_map(|epoch| loader.epoch(epoch).unwrap()).collect();
        drop(loader);
        assert_eq!(values(kept.into_iter()), [setting.model(0), setting.model(1)].concat());
    }
}

#[test]
fn invalid_settings_are_refused() {
    let builder = || DataLoader::builder(Arc::new(Numbers::new(5)));
    let refused = |builder: DataLoaderBuilder| builder.build().err().unwrap();
    let error = refused(builder().batch_size(0));
    assert!(matches!(error, Error::InvalidArgument { argument: "batch_size", .. }), "{error}");
    assert!(error.to_string().contains("batch_size=0"), "{error}");
    let error = refused(builder().threads(2).prefetch(0));
    assert!(matches!(error, Error::InvalidArgument { argument: "prefetch", .. }), "{error}");
    assert!(builder().threads(0).prefetch(0).build().is_ok(), "without threads there is nothing to prefetch");
}

#[test]
fn everything_may_be_fetched_ahead() {
    let loader = DataLoader::builder(Arc::new(Numbers::new(50))).threads(2).prefetch(usize::MAX).build().unwrap();
    assert!(values(loader.epoch(0).unwrap()).into_iter().eq((0..50).map(|number| vec![number])));
}

#[test]
fn an_epoch_without_the_threads_that_it_needs_ends_with_one_error() {
    alone("loader::an_epoch_without_the_threads_that_it_needs_ends_with_one_error", NO_THREADS, || {
        let loader = DataLoader::builder(Arc::new(Numbers::new(50))).threads(2).build().unwrap();
        let outcomes: Vec<_> = loader.epoch(0).unwrap().take(100).collect();
        assert!(matches!(outcomes[..], [Err(Error::Threads { threads: 2, .. })]), "{}", outcomes.len());
    });
}

#[test]
fn an_empty_dataset_has_epochs_without_batches() {
    let loader = DataLoader::builder(Arc::new(Numbers::new(0))).shuffle(7).threads(2).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    assert_eq!((batches.len(), batches.next().is_none(), batches.next().is_none()), (0, true, true));
}

#[test]
fn an_index_that_the_dataset_does_not_have_is_its_batch_s_error() {
    struct Beyond;
    impl Sampler for Beyond {
        fn order(&self, _epoch: u64) -> Result<Box<dyn EpochOrder>> {
            Ok(Box::new(Self))
        }
    }
    impl EpochOrder for Beyond {
        fn len(&self) -> usize {
            6
        }
        fn index_at(&self, position: usize) -> usize {
            if position == 3 { 99 } else { position }
        }
    }
    for threads in [0, 2] {
        let loader = DataLoader::builder(Arc::new(Numbers::new(6))).sampler(Arc::new(Beyond)).batch_size(2);
        let batches: Vec<_> = loader.threads(threads).build().unwrap().epoch(0).unwrap().collect();
        assert!(batches[0].is_ok() && batches[2].is_ok() && batches.len() == 3);
        assert!(matches!(batches[1], Err(Error::IndexOutOfRange { index: 99, len: 6 })));
    }
}

#[test]
fn a_billion_virtual_samples_are_shuffled_and_resumed_anywhere() {
    let len = 1_000_000_000;
    let loader = DataLoader::builder(Arc::new(Numbers::new(len))).shuffle(7).threads(1).build().unwrap();
    let (first, order) = (loader.epoch(3).unwrap().next().unwrap().unwrap(), RandomSampler::new(len, 7).order(3));
    assert_eq!(first.to_vec::<u64>(0).unwrap(), [order.unwrap().index_at(0) as u64]);

    // Counting up to this number of received batches would take hours.
    let len = 1 << 42;
    let left: u64 = (1 << 42) - 3;
    let loader = DataLoader::builder(Arc::new(Numbers::new(len))).build().unwrap();
    let json = loader.epoch(0).unwrap().state().to_json();
    let json = json.replace("\"batches_received\":0", &format!("\"batches_received\":{left}"));
    let json = json.replace("\"position\":0", &format!("\"position\":{left}"));
    let rest: Batches = loader.resume(&LoaderState::from_json(&json).unwrap()).unwrap();
    assert!(values(rest).into_iter().eq((left..left + 3).map(|number| vec![number])));
}

#[test]
fn ten_epochs_use_no_more_memory_than_one() {
    alone("loader::ten_epochs_use_no_more_memory_than_one", "", || {
        let images = InMemory::from_vec("image", vec![1_u8; 2000 * 12_288], [3, 64, 64]).unwrap();
        let builder = DataLoader::builder(Arc::new(images)).shuffle(7).batch_size(100);
        let loader = builder.threads(2).build().unwrap();
        let after = |epoch| {
            loader.epoch(epoch).unwrap().for_each(|batch| drop(batch.unwrap()));
            resident_bytes()
        };
        // The first epochs warm up the slots; a leak of one batch per epoch would show in the others.
        let first = (0..3).map(after).max().unwrap();
        let last = (3..20).map(after).max().unwrap();
        assert!(last < first + 8 * 1_228_800, "{first} bytes after the first epochs, {last} at most later");
    });
}
