//! Resuming in another layout: the ranks continue at the position that the saved ranks had reached.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{
    BatchIds, BatchSampler, BatchingSampler, ClassIndex, DataLoader, DataLoaderBuilder, Delivery, Error, LastBatch,
    LoaderState, RandomSampler, Remainder, Shard, StratifiedBatchSampler,
};

use crate::datasets::Numbers;

/// How ranks read an epoch.
#[derive(Debug, Clone, Copy)]
struct Layout {
    batch_size: usize,
    world_size: usize,
    threads: usize,
}

fn layout() -> impl Strategy<Value = Layout> {
    let layout = |(batch_size, world_size, threads)| Layout { batch_size, world_size, threads };
    (1_usize..20, 1_usize..6, 0_usize..3).prop_map(layout)
}

impl Layout {
    /// Returns one loader for each rank.
    fn loaders(self, len: usize, remainder: Remainder) -> Vec<DataLoader> {
        self.build(len, remainder, |builder| builder.batch_size(self.batch_size).shuffle(7))
    }

    fn build(
        self,
        len: usize,
        remainder: Remainder,
        order: impl Fn(DataLoaderBuilder) -> DataLoaderBuilder,
    ) -> Vec<DataLoader> {
        let loader = |rank| {
            let builder = order(DataLoader::builder(Arc::new(Numbers::new(len)))).threads(self.threads);
            builder.shard(Shard::new(rank, self.world_size).unwrap(), remainder).build().unwrap()
        };
        (0..self.world_size).map(loader).collect()
    }
}

/// Returns what the ranks receive in `batches` batches from `state` on, and the state of each afterwards.
fn received(
    loaders: &[DataLoader],
    state: Option<&LoaderState>,
    batches: usize,
) -> (Vec<Vec<BatchIds>>, Vec<LoaderState>) {
    let of_rank = |loader: &DataLoader| {
        let epoch = match state {
            Some(state) => loader.resume(state).unwrap(),
            None => loader.epoch(3).unwrap(),
        };
        let mut epoch = epoch.with_ids();
        let mut received = Vec::new();
        for batch in epoch.by_ref().take(batches) {
            let (batch, ids) = batch.unwrap();
            let read = batch.to_vec::<u64>(0).unwrap();
            assert!(read.into_iter().eq(ids.indices.iter().map(|&index| index as u64)), "ids tell what was read");
            received.push(ids);
        }
        (received, LoaderState::from_json(&epoch.state().to_json()).unwrap())
    };
    loaders.iter().map(of_rank).unzip()
}

fn valid(ranks: &[Vec<BatchIds>]) -> Vec<usize> {
    ranks.iter().flatten().flat_map(|ids| ids.indices[..ids.valid].iter().copied()).collect()
}

fn counts(len: usize, indices: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut counts = vec![0; len];
    indices.into_iter().for_each(|index| counts[index] += 1);
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_epoch_resumes_with_different_ranks_and_batch_sizes(
        len in 0_usize..150, layouts in prop::collection::vec((layout(), 0_usize..5), 1..4), last in layout(),
    ) {
        for remainder in [Remainder::Exact, Remainder::Pad, Remainder::Drop] {
            let (mut read, mut state) = (Vec::new(), None);
            for (layout, batches) in layouts.iter().copied().chain([(last, usize::MAX)]) {
                let before = state.as_ref().map_or(0, LoaderState::batches_received);
                let (ranks, states) = received(&layout.loaders(len, remainder), state.as_ref(), batches);
                for ranks in ranks.windows(2) {
                    prop_assert!(ranks[0].iter().map(|ids| ids.indices.len()).eq(ranks[1].iter().map(|ids| ids.indices.len())));
                }
                for rank in &ranks {
                    prop_assert!(rank.iter().map(|ids| ids.batch_in_epoch).eq((before..).take(rank.len())));
                }
                read.extend(valid(&ranks));
                let position = states[0].position();
                prop_assert!(states.iter().all(|state| state.position() == position), "all ranks are at one position");
                // Any rank's state works.
                state = states.into_iter().nth(read.len() % layout.world_size);
            }
            let times = counts(len, read.iter().copied());
            match remainder {
                Remainder::Exact => prop_assert!(times.iter().all(|&times| times == 1), "{:?}", times),
                Remainder::Pad => prop_assert!(times.iter().all(|&times| times >= 1) && read.len() < len + 5),
                Remainder::Drop => {
                    prop_assert!(times.iter().all(|&times| times <= 1) && len - read.len() < last.world_size);
                }
            }
        }
    }

    #[test]
    fn in_the_same_layout_the_rest_is_that_of_the_uninterrupted_epoch(len in 0_usize..150, layout in layout()) {
        for remainder in [Remainder::Exact, Remainder::Pad, Remainder::Drop] {
            let loaders = layout.loaders(len, remainder);
            let (whole, _) = received(&loaders, None, usize::MAX);
            for batches in 0..=whole[0].len() {
                let (first, states) = received(&loaders, None, batches);
                for (rank, loader) in loaders.iter().enumerate() {
                    let (rest, _) = received(std::slice::from_ref(loader), Some(&states[rank]), usize::MAX);
                    prop_assert_eq!([&first[rank][..], &rest[0][..]].concat(), whole[rank].clone());
                }
            }
        }
    }

    #[test]
    fn sampler_batches_resume_with_different_ranks(
        len in 1_usize..150, before in layout(), after in layout(), batches in 0_usize..8,
    ) {
        let index = Arc::new(ClassIndex::new(&(0..len as i64).map(|sample| sample % 3).collect::<Vec<_>>())?);
        let sampler = Arc::new(StratifiedBatchSampler::new(index, 6, LastBatch::Keep, 7)?);
        let made = sampler.batches(3)?;
        let loaders = |layout: Layout| layout.build(len, Remainder::Exact, |builder| builder.batches(sampler.clone()));
        let (first, states) = received(&loaders(before), None, batches);
        let (rest, _) = received(&loaders(after), states.last(), usize::MAX);
        let all = [first, rest].concat();
        prop_assert!(counts(len, valid(&all)).iter().all(|&times| times == 1));
        let mut expected = Vec::new();
        for ids in all.iter().flatten() {
            made.indices(ids.position, &mut expected);
            prop_assert_eq!(&ids.indices, &expected);
            prop_assert!(ids.valid == 0 || ids.valid == expected.len());
        }
    }
}

fn loader(batch_size: usize) -> DataLoaderBuilder {
    DataLoader::builder(Arc::new(Numbers::new(100))).batch_size(batch_size).shuffle(7)
}

fn refusal(loader: DataLoaderBuilder, state: &LoaderState) -> String {
    let error = loader.build().unwrap().resume(state).expect_err("it was accepted");
    assert!(matches!(error, Error::State { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn another_seed_or_sampler_is_refused_with_both_sides() {
    let state = loader(10).build().unwrap().epoch(3).unwrap().state();
    let said = |other: &str| {
        let saved = "RandomSampler(len=100, num_samples=100, replacement=Without, seed=7)";
        format!("it was saved with the sampler {saved}, here {other}; build the loader as it was")
    };
    let message = refusal(loader(10).shuffle(8), &state);
    let other = "RandomSampler(len=100, num_samples=100, replacement=Without, seed=8)";
    assert!(message.contains(&said(other)), "{message}");
    let in_sequence = DataLoader::builder(Arc::new(Numbers::new(100))).batch_size(10);
    let message = refusal(in_sequence, &state);
    assert!(message.contains(&said("SequentialSampler(len=100)")), "{message}");
    let batches = || {
        let batches = BatchSampler::new(Arc::new(RandomSampler::new(100, 7)), 10, LastBatch::Keep).unwrap();
        DataLoader::builder(Arc::new(Numbers::new(100))).batches(Arc::new(batches))
    };
    let message = refusal(batches(), &state);
    assert!(message.contains("an order of samples, here the sampler's batches"), "{message}");
    let state = batches().build().unwrap().epoch(0).unwrap().state();
    let message = refusal(loader(10), &state);
    assert!(message.contains("the sampler's batches, here an order of samples"), "{message}");
}

#[test]
fn batches_received_out_of_order_resume_only_with_the_same_batches() {
    let json = loader(10).build().unwrap().epoch(3).unwrap().state().to_json();
    let json = json.replace("\"received_ahead\":[]", "\"received_ahead\":[1,9]");
    let state = LoaderState::from_json(&json).unwrap();
    let as_completed = || loader(10).delivery(Delivery::AsCompleted);
    let rest: Vec<u64> = (as_completed().build().unwrap().resume(&state).unwrap().with_ids())
        .map(|batch| batch.unwrap().1.batch_in_epoch)
        .collect();
    assert_eq!(rest, [0, 2, 3, 4, 5, 6, 7, 8]);
    let message = refusal(loader(20), &state);
    assert!(message.contains("batches of 10 on rank 0 of 1, here with batches of 20 on rank 0 of 1"), "{message}");
    let sharded = as_completed().shard(Shard::new(1, 2).unwrap(), Remainder::Pad);
    let message = refusal(sharded, &state);
    assert!(message.contains("batches of 10 on rank 0 of 1, here with batches of 10 on rank 1 of 2"), "{message}");
    // Without the smaller last batch, a batch that was received is not part of the epoch.
    let odd = json.replace("100", "95");
    let odd_loader = DataLoader::builder(Arc::new(Numbers::new(95))).batch_size(10).last_batch(LastBatch::Drop);
    let odd_rest = odd_loader.shuffle(7).build().unwrap().resume(&LoaderState::from_json(&odd).unwrap()).unwrap();
    assert_eq!((odd_rest.len(), odd_rest.count()), (8, 8));
}

#[test]
fn ids_identify_batches_even_failed_ones() {
    let loader =
        DataLoader::builder(Arc::new(Numbers::new(5))).batch_size(2).sampler(Arc::new(RandomSampler::new(7, 7)));
    let loader = loader.build().unwrap();
    let mut batches = loader.epoch(4).unwrap();
    assert!(batches.last_ids().is_none());
    let plan = loader.plan(4).unwrap();
    let mut failed = 0;
    for number in 0..plan.len() {
        let mut indices = Vec::new();
        let planned = plan.batch(number, &mut indices);
        // Two of the indices are past the end of the dataset.
        let is_there = indices.iter().all(|&index| index < 5);
        assert_eq!(batches.next().unwrap().is_ok(), is_there);
        failed += usize::from(!is_there);
        let ids = batches.last_ids().unwrap();
        assert_eq!((ids.epoch, ids.batch_in_epoch), (4, number as u64));
        assert_eq!((ids.position, &ids.indices, ids.valid), (planned.position, &indices, planned.valid));
        assert_eq!(planned.position, 2 * number);
    }
    assert!(batches.next().is_none() && failed > 0);
}

#[test]
fn a_batch_sampler_excludes_other_batch_settings() {
    let builder = || {
        let batches = BatchSampler::new(Arc::new(RandomSampler::new(10, 7)), 4, LastBatch::Keep).unwrap();
        DataLoader::builder(Arc::new(Numbers::new(10))).batches(Arc::new(batches))
    };
    assert_eq!(builder().build().unwrap().epoch(0).unwrap().len(), 3);
    let others = [
        (builder().batch_size(4), "batch_size can't be passed"),
        (builder().last_batch(LastBatch::Keep), "last_batch can't be passed"),
        (builder().shuffle(7), "sampler or shuffle can't be passed"),
    ];
    for (builder, reason) in others {
        let error = builder.build().expect_err("it was accepted");
        assert!(matches!(error, Error::InvalidArgument { argument: "batches", .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}
