//! Token budgets shared among ranks: the batches that ranks take at one step have similar lengths.

use proptest::prelude::*;
use sluicegate::internal::{PackedBatchSampler, Packing, PieceCode};
use sluicegate::{
    BatchLimit, BatchingSampler, EpochPlan, Error, LastBatch, LengthBucketBatchSampler, Remainder, Shard, Shuffling,
    sample_key,
};

/// Returns log-normal lengths, like those of texts.
fn texts(count: u64, limit: f64) -> Vec<i64> {
    let uniform = |place: u64| (sample_key(11, 0, place) >> 11) as f64 / (1_u64 << 53) as f64;
    let normal = |text: u64| {
        let radius = (-2.0 * (1.0 - uniform(2 * text)).ln()).sqrt();
        radius * (std::f64::consts::TAU * uniform(2 * text + 1)).cos()
    };
    (0..count).map(|text| (5.5 + 0.9 * normal(text)).exp().clamp(1.0, limit) as i64).collect()
}

fn batches(sampler: &dyn BatchingSampler, epoch: u64) -> Vec<Vec<usize>> {
    let batches = sampler.batches(epoch).unwrap();
    let mut indices = Vec::new();
    let read = |batch| {
        batches.indices(batch, &mut indices);
        indices.clone()
    };
    (0..batches.len()).map(read).collect()
}

/// Returns how much longer an epoch takes if each step lasts as long as its most expensive batch: the sum of the maxima
/// over the sum of the means.
fn imbalance(costs: &[f64], world_size: usize) -> f64 {
    let steps = || costs.chunks_exact(world_size);
    let most: f64 = steps().map(|step| step.iter().copied().fold(0.0, f64::max)).sum();
    most / steps().map(|step| step.iter().sum::<f64>() / world_size as f64).sum::<f64>()
}

#[test]
fn ranks_get_similar_batches_at_each_step() {
    let lengths = texts(60_000, 2048.0);
    for (limit, loose, tight) in [(BatchLimit::Tokens(8192), 1.03, 1.02), (BatchLimit::Samples(16), 1.8, 1.1)] {
        let per_batch = |limit| match limit {
            BatchLimit::Tokens(tokens) => tokens * lengths.len() / lengths.iter().sum::<i64>() as usize,
            BatchLimit::Samples(samples) => samples,
        };
        let make = |balance| {
            let window = 100 * balance * per_batch(limit);
            LengthBucketBatchSampler::new(&lengths, limit, window, LastBatch::Keep, Shuffling::Seeded(7))
                .unwrap()
                .balanced(balance)
                .unwrap()
        };
        let costs = |balance, power: i32| -> Vec<f64> {
            let longest = |batch: &Vec<usize>| batch.iter().map(|&sample| lengths[sample]).max().unwrap() as f64;
            let read = batches(&make(balance), 0);
            read.iter().map(|batch| batch.len() as f64 * longest(batch).powi(power)).collect()
        };
        assert!(imbalance(&costs(1, 1), 8) > loose, "{limit:?}: {}", imbalance(&costs(1, 1), 8));
        for world_size in [2, 4, 8] {
            let found = imbalance(&costs(8, 1), world_size);
            assert!(found < tight, "{limit:?}, {world_size} ranks: {found}");
        }
        // Costs that are quadratic in the length, like attention, differ more.
        assert!(imbalance(&costs(1, 2), 8) > 1.5, "{limit:?}: {}", imbalance(&costs(1, 2), 8));
        assert!(imbalance(&costs(8, 2), 8) < 1.15, "{limit:?}: {}", imbalance(&costs(8, 2), 8));
    }
}

#[test]
fn packed_batches_have_similar_tokens_at_each_step() {
    let lengths = texts(20_000, 4000.0);
    for packing in [Packing::Concat, Packing::FirstFit, Packing::BestFit] {
        let sampler =
            PackedBatchSampler::new(&lengths, 2048, 4, packing, 1 << 16, LastBatch::Drop, Shuffling::Seeded(7));
        let tokens = |batch: Vec<usize>| -> f64 {
            let mut rows: Vec<usize> = Vec::new();
            for index in batch {
                let piece = PieceCode::of(index, lengths.len());
                if piece.begins_row {
                    rows.push(0);
                }
                let row = rows.last_mut().unwrap();
                *row = 2048.min(*row + lengths[piece.document] as usize - piece.start);
            }
            assert_eq!(rows.len(), 4, "every batch has as many rows, and they are as long");
            rows.iter().sum::<usize>() as f64
        };
        let costs: Vec<f64> = batches(&sampler.unwrap(), 0).into_iter().map(tokens).collect();
        assert!(imbalance(&costs, 8) < 1.01, "{packing:?}: {}", imbalance(&costs, 8));
    }
}

proptest! {
    #[test]
    fn groups_are_adjacent_in_sorted_order(
        lengths in prop::collection::vec(1_i64..300, 0..300),
        balance in 1_usize..12, tokens: bool, seed: u64, epoch in 0_u64..3, drop: bool,
    ) {
        let limit = if tokens { BatchLimit::Tokens(600) } else { BatchLimit::Samples(3) };
        let last_batch = if drop { LastBatch::Drop } else { LastBatch::Keep };
        let make = |shuffling| LengthBucketBatchSampler::new(&lengths, limit, 64, last_batch, shuffling).unwrap();
        let plain = make(Shuffling::Seeded(seed));
        let sampler = plain.clone().balanced(balance).unwrap();
        let (expected, found) = (batches(&plain, epoch), batches(&sampler, epoch));
        if balance == 1 {
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(sampler.identity(), plain.identity());
        } else {
            prop_assert!(sampler.identity() != plain.identity());
        }
        // The batches are the same, and each group contains batches that are neighbors when all are in one group.
        let (mut these, mut those) = (found.clone(), expected);
        these.sort_unstable();
        those.sort_unstable();
        prop_assert_eq!(these, those);
        let sorted = batches(&plain.balanced(usize::MAX).unwrap(), epoch);
        let place = |batch: &Vec<usize>| sorted.iter().position(|other| other == batch).unwrap();
        for group in found.chunks(balance) {
            let places: Vec<usize> = group.iter().map(place).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{:?}", places);
        }
        // Ranks whose number divides the group size take the batches of one step from one group.
        for world_size in (1..=balance).filter(|&ranks| balance.is_multiple_of(ranks)) {
            let plan = |rank| {
                let order = sampler.batches(epoch).unwrap().into();
                EpochPlan::of_batches(order).shard(Shard::new(rank, world_size).unwrap(), Remainder::Drop)
            };
            let plans: Vec<EpochPlan> = (0..world_size).map(plan).collect();
            for step in 0..plans[0].len() {
                let groups: Vec<usize> = plans.iter().map(|plan| plan.batch(step, &mut Vec::new()).position / balance).collect();
                prop_assert!(groups.iter().all(|&group| group == groups[0]));
            }
        }
    }
}

#[test]
fn no_balance_is_no_group() {
    let limit = BatchLimit::Samples(2);
    let sampler = LengthBucketBatchSampler::new(&[3, 4], limit, 8, LastBatch::Keep, Shuffling::Seeded(7)).unwrap();
    assert!(matches!(sampler.clone().balanced(0), Err(Error::InvalidArgument { argument: "balance", .. })));
    assert!(sampler.balanced(8).unwrap().identity().ends_with(", shuffling=Seeded(7), balance=8)"));
}
