//! One of every sampler, for checks that all of them must pass.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::{PackedBatchSampler, Packing};
use sluicegate::{
    BalancedBatchSampler, BatchLimit, BatchSampler, BatchingSampler, BlockShuffleSampler, ClassIndex, ClassSampler,
    DistributedSampler, EpochBatches, EpochOrder, LastBatch, LengthBucketBatchSampler, MixtureSampler, MixtureWeights,
    RandomSampler, Remainder, RepeatSampler, Result, Sampler, SequentialSampler, Shard, Shuffling, StopCriteria,
    StratifiedBatchSampler, SubsetRandomSampler, TorchRandomSampler, WeightedRandomSampler,
};

use crate::conformance::{batching_sampler_conformance, sampler_conformance};

fn class_index(len: usize) -> Arc<ClassIndex> {
    // Classes of unequal sizes: about 1/2, 1/4, 1/8, and so on of the samples, with labels that are not positions.
    let label = |sample: usize| 3 * i64::from((sample * 7919 + 1).trailing_zeros()) - 5;
    Arc::new(ClassIndex::new(&(0..len).map(label).collect::<Vec<_>>()).unwrap())
}

fn weights(len: usize) -> impl Iterator<Item = f64> {
    (0..len).map(|index| 0.25 + (index % 7) as f64)
}

/// Returns blocks of 0 to 12 samples, `len` samples in total.
fn uneven_blocks(len: usize) -> impl Iterator<Item = usize> {
    let mut left = len;
    (0..).map(|block| block * 7 % 13).map_while(move |size| {
        let size = size.min(left);
        left -= size;
        (size > 0 || left > 0).then_some(size)
    })
}

/// Returns every sampler of samples, in each of its modes, by name.
pub(crate) fn samplers(len: usize, seed: u64) -> Vec<(&'static str, Arc<dyn Sampler>)> {
    let random = RandomSampler::new(len, seed);
    let shared: Arc<dyn Sampler> = Arc::new(random.clone());
    let index = class_index(len);
    let classes: Vec<usize> = (0..index.classes().len()).rev().step_by(2).collect();
    let weighted = |count| WeightedRandomSampler::new(weights(len), count, seed).unwrap();
    let distinct = |count| WeightedRandomSampler::without_replacement(weights(len), count, seed).unwrap();
    let parts = [len, len.div_ceil(2), len.div_ceil(9)];
    let mixture = |weights: &MixtureWeights, stop| MixtureSampler::new(&parts, weights, stop, seed).unwrap();
    let ramp = MixtureWeights::linear(vec![(0, vec![1.0, 0.0, 2.0]), (len, vec![0.5, 3.0, 1.0])]);
    let constant = MixtureWeights::constant([0.7, 0.2, 0.1]);
    let subset = (0..len).map(|index| index << 30);
    vec![
        ("sequential", Arc::new(SequentialSampler::new(len))),
        ("random", Arc::clone(&shared)),
        ("random, more than all", Arc::new(random.clone().with_num_samples(3 * len + 1))),
        ("random, replacement", Arc::new(random.with_replacement())),
        ("torch", Arc::new(TorchRandomSampler::new(len, seed))),
        ("subset", Arc::new(SubsetRandomSampler::new(subset, seed))),
        ("weighted", Arc::new(weighted(2 * len))),
        ("weighted, no replacement", Arc::new(distinct(len.div_ceil(2)))),
        ("weighted, no replacement, all", Arc::new(distinct(len))),
        ("blocks", Arc::new(BlockShuffleSampler::new(len, 16, 5, seed).unwrap())),
        ("uneven blocks", Arc::new(BlockShuffleSampler::with_blocks(uneven_blocks(len), 5, seed).unwrap())),
        ("classes", Arc::new(ClassSampler::new(index, classes, Shuffling::Seeded(seed)).unwrap())),
        ("mixture", Arc::new(mixture(&constant, StopCriteria::CycleUntilAllDatasetsExhausted))),
        ("mixture, all once", Arc::new(mixture(&constant, StopCriteria::AllDatasetsExhausted))),
        ("mixture, ramp", Arc::new(mixture(&ramp, StopCriteria::CycleForever(3 * len)))),
        ("passes", Arc::new(RepeatSampler::passes(Arc::clone(&shared), 3))),
        ("in a row", Arc::new(RepeatSampler::in_a_row(Arc::clone(&shared), 3))),
        ("rank", Arc::new(DistributedSampler::new(shared, Shard::new(1, 3).unwrap(), Remainder::Pad))),
    ]
}

/// Returns every sampler of batches.
pub(crate) fn batching_samplers(len: usize, seed: u64) -> Vec<(&'static str, Arc<dyn BatchingSampler>)> {
    let index = class_index(len);
    let classes_per_batch = index.classes().len().min(3);
    let balanced =
        |batches| BalancedBatchSampler::new(Arc::clone(&index), classes_per_batch, 4, batches, seed).unwrap();
    let stratified = StratifiedBatchSampler::new(Arc::clone(&index), 12, LastBatch::Keep, seed).unwrap();
    let lengths: Vec<i64> = (0..len as i64).map(|sample| sample * sample % 61).collect();
    let like =
        |limit| LengthBucketBatchSampler::new(&lengths, limit, 100, LastBatch::Keep, Shuffling::Seeded(seed)).unwrap();
    let packed = |packing| {
        PackedBatchSampler::new(&lengths, 50, 3, packing, 100, LastBatch::Keep, Shuffling::Seeded(seed)).unwrap()
    };
    let random = Arc::new(RandomSampler::new(len, seed));
    vec![
        ("batches", Arc::new(BatchSampler::new(random, 12, LastBatch::Keep).unwrap())),
        ("balanced batches", Arc::new(balanced(NonZeroUsize::new(50)))),
        ("stratified batches", Arc::new(stratified)),
        ("batches of like length", Arc::new(like(BatchLimit::Samples(12)))),
        ("batches of like length, balanced", Arc::new(like(BatchLimit::Samples(12)).balanced(4).unwrap())),
        ("batches of 400 tokens", Arc::new(like(BatchLimit::Tokens(400)))),
        ("packed, concat", Arc::new(packed(Packing::Concat))),
        ("packed, first fit", Arc::new(packed(Packing::FirstFit))),
        ("packed, best fit", Arc::new(packed(Packing::BestFit))),
    ]
}

/// The lengths at which behavior changes: a table or a network, a block that is not full, a batch that is.
const LENS: [usize; 12] = [1, 2, 3, 10, 11, 12, 13, 80, 255, 256, 257, 1500];

#[test]
fn every_sampler_keeps_the_contract() {
    for len in LENS {
        for seed in [0, 7, u64::MAX] {
            // A subset has the indices that it was given; a mixture those of all its parts.
            samplers(len, seed).iter().for_each(|(_, sampler)| sampler_conformance(&**sampler, usize::MAX));
        }
        for (name, sampler) in batching_samplers(len, 7) {
            // An index of a packed batch encodes more than its document.
            let len = if name.starts_with("packed") { usize::MAX } else { len };
            batching_sampler_conformance(&*sampler, len);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_sampler_keeps_the_contract_at_any_length(
        len in 1_usize..3_000,
        seed in any::<u64>(),
        of_samples in any::<prop::sample::Index>(),
        of_batches in any::<prop::sample::Index>(),
    ) {
        sampler_conformance(&*of_samples.get(&samplers(len, seed)).1, usize::MAX);
        batching_sampler_conformance(&*of_batches.get(&batching_samplers(len, seed)).1, usize::MAX);
    }

    #[test]
    fn the_ranks_of_every_sampler_deal_its_order_in_turn(
        len in 1_usize..300,
        seed in any::<u64>(),
        sampler in any::<prop::sample::Index>(),
        world_size in 1_usize..12,
        epoch in 0_u64..5,
    ) {
        let samplers = samplers(len, seed);
        let sampler = &sampler.get(&samplers).1;
        let indices = |order: Box<dyn EpochOrder>| (0..order.len()).map(|place| order.index_at(place)).collect::<Vec<_>>();
        let whole = indices(sampler.order(epoch).unwrap());
        for remainder in [Remainder::Pad, Remainder::Drop, Remainder::Exact] {
            let ranks: Vec<Vec<usize>> = (0..world_size)
                .map(|rank| DistributedSampler::new(Arc::clone(sampler), Shard::new(rank, world_size).unwrap(), remainder))
                .map(|rank| indices(rank.order(epoch).unwrap()))
                .collect();
            let each = if remainder == Remainder::Drop { whole.len() / world_size } else { whole.len().div_ceil(world_size) };
            prop_assert!(ranks.iter().all(|rank| rank.len() == each));
            let dealt = (0..each).flat_map(|place| ranks.iter().map(move |rank| rank[place]));
            prop_assert!(dealt.eq(whole.iter().copied().cycle().take(each * world_size)));
        }
    }
}

#[test]
fn all_samplers_are_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sampler");
    let implemented = |line: &str| {
        let (_, name) = line.split_once("Sampler for ")?;
        line.starts_with("impl ").then(|| name.trim_end_matches([' ', '{']).to_owned())
    };
    let there: BTreeSet<String> = (std::fs::read_dir(folder).unwrap())
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .flat_map(|text| text.lines().filter_map(implemented).collect::<Vec<_>>())
        .collect();
    let name_of = |identity: String| identity.split('(').next().unwrap().to_owned();
    let orders = samplers(10, 7).into_iter().map(|(_, sampler)| name_of(sampler.identity()));
    let batches = batching_samplers(10, 7).into_iter().map(|(_, sampler)| name_of(sampler.identity()));
    assert_eq!(orders.chain(batches).collect::<BTreeSet<_>>(), there, "each says its name, and each is listed");
}

#[test]
fn samplers_with_different_orders_have_different_descriptions() {
    let identities = |len, seed| {
        let orders = samplers(len, seed).into_iter().map(|(_, sampler)| sampler.identity());
        orders
            .chain(batching_samplers(len, seed).into_iter().map(|(_, sampler)| sampler.identity()))
            .collect::<Vec<_>>()
    };
    let one = identities(100, 7);
    assert_eq!(one, identities(100, 7), "the same sampler, made again");
    assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), one.len(), "{one:#?}");
    for (other, is_seed) in [(identities(101, 7), false), (identities(100, 8), true)] {
        for (one, other) in one.iter().zip(other) {
            assert!(*one != other || is_seed && one == "SequentialSampler(len=100)", "{one}");
        }
    }
}

#[test]
fn sampler_descriptions_include_the_data_that_determines_the_order() {
    let labels: [&[i64]; 4] = [&[0, 1, 0, 1], &[0, 1, 1, 0], &[0, 2, 0, 2], &[0, 1, 0, 1]];
    let [one, moved, renamed, same] = labels.map(|labels| {
        let index = Arc::new(ClassIndex::new(labels).unwrap());
        [
            ClassSampler::new(Arc::clone(&index), vec![1], Shuffling::Seeded(7)).unwrap().identity(),
            BalancedBatchSampler::new(Arc::clone(&index), 1, 1, None, 7).unwrap().identity(),
            StratifiedBatchSampler::new(index, 2, LastBatch::Keep, 7).unwrap().identity(),
        ]
    });
    assert_eq!(one, same);
    assert!((0..3).all(|place| one[place] != moved[place] && one[place] != renamed[place]));
    // Weights with equal tables may still be drawn differently.
    let weights = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0_f64.next_up()]];
    let [one, other] =
        weights.map(|weights| WeightedRandomSampler::without_replacement(weights, 2, 7).unwrap().identity());
    assert_ne!(one, other);
    let weighted = |weights: [f64; 2]| WeightedRandomSampler::new(weights, 2, 7).unwrap().identity();
    assert_ne!(weighted([1.0, 2.0]), weighted([2.0, 1.0]));
    let subset = |indices: &[usize]| SubsetRandomSampler::new(indices.iter().copied(), 7).identity();
    assert_ne!(subset(&[1, 2]), subset(&[2, 1]));
    assert_ne!(subset(&[0, 0]), subset(&[0]));
    assert_ne!(subset(&[1 << 40]), subset(&[1 << 41]));
    let mixture = |weights: [f64; 2], lens: [usize; 2]| {
        let stop = StopCriteria::CycleForever(100);
        MixtureSampler::new(&lens, &MixtureWeights::constant(weights), stop, 7).unwrap().identity()
    };
    assert_eq!(mixture([1.0, 2.0], [5, 6]), mixture([2.0, 4.0], [5, 6]), "the same shares are the same mixture");
    assert_ne!(mixture([1.0, 2.0], [5, 6]), mixture([1.0, 3.0], [5, 6]));
    assert_ne!(mixture([1.0, 2.0], [5, 6]), mixture([1.0, 2.0], [6, 5]));
}

#[test]
fn a_sampler_without_a_description_is_named_by_its_type() {
    struct Plain;
    impl Sampler for Plain {
        fn order(&self, _epoch: u64) -> Result<Box<dyn EpochOrder>> {
            SequentialSampler::new(3).order(0)
        }
    }
    struct Of<T, const N: usize>(std::marker::PhantomData<T>);
    impl<T: Send + Sync, const N: usize> BatchingSampler for Of<T, N> {
        fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>> {
            BatchSampler::new(Arc::new(Plain), N, LastBatch::Keep)?.batches(epoch)
        }
    }
    assert_eq!(Plain.identity(), "Plain");
    assert_eq!(Of::<(Option<String>, Plain), 2>(std::marker::PhantomData).identity(), "Of<(Option<String>, Plain), 2>");
    let repeated = RepeatSampler::passes(Arc::new(Plain), 2);
    assert_eq!(repeated.identity(), "RepeatSampler(Plain, times=2, Passes)");
}
