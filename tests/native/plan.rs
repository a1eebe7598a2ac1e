//! Plans: every rank gets the same number of batches of the same sizes, nothing is lost, and the start does not matter.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::ExplicitOrder;
use sluicegate::{
    EpochBatches, EpochOrder, EpochPlan, Error, LastBatch, PlannedBatch, RandomSampler, Remainder, RepeatSampler,
    Sampler, SequentialSampler, Shard,
};

const REMAINDERS: [Remainder; 3] = [Remainder::Pad, Remainder::Drop, Remainder::Exact];
const LAST_BATCHES: [LastBatch; 2] = [LastBatch::Keep, LastBatch::Drop];

/// The batches of a plan, each with its description from the plan.
type Planned = Vec<(PlannedBatch, Vec<usize>)>;

fn read(plan: &EpochPlan) -> Planned {
    assert_eq!(plan.is_empty(), (0..plan.len()).next().is_none());
    let mut indices = vec![usize::MAX; 3];
    (0..plan.len()).map(|batch| (plan.batch(batch, &mut indices), indices.clone())).collect()
}

/// Returns the order in which every index equals its position.
fn in_sequence(len: usize) -> Arc<dyn EpochOrder> {
    SequentialSampler::new(len).order(0).unwrap().into()
}

/// Returns what the ranks read of a plan.
fn of_ranks(plan: &EpochPlan, world_size: usize, remainder: Remainder) -> Vec<Planned> {
    let of_rank = |rank| read(&plan.clone().shard(Shard::new(rank, world_size).unwrap(), remainder));
    (0..world_size).map(of_rank).collect()
}

fn sorted(mut indices: Vec<usize>) -> Vec<usize> {
    indices.sort_unstable();
    indices
}

fn counts(len: usize, indices: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = vec![0; len];
    indices.for_each(|index| counts[index] += 1);
    counts
}

/// Asserts the guarantees of `ranks`, which read the rest, from `start` on, of the order in which every index equals
/// its position.
fn assert_dealt(ranks: &[Planned], (len, start): (usize, usize), batch_size: usize, last: LastBatch, rule: Remainder) {
    let (left, world_size) = (len - start, ranks.len());
    let what = format!("{left} of {len} in batches of {batch_size}, {last:?}, for {world_size}, {rule:?}");
    let per_rank = if rule == Remainder::Drop { left / world_size } else { left.div_ceil(world_size) };
    let per_rank = if last == LastBatch::Drop { per_rank / batch_size * batch_size } else { per_rank };
    for rank in ranks {
        let sizes: Vec<usize> = rank.iter().map(|(_, indices)| indices.len()).collect();
        let full = per_rank / batch_size;
        assert!(sizes[..full].iter().all(|&size| size == batch_size), "{what}");
        assert_eq!(
            sizes[full..],
            if per_rank % batch_size > 0 { vec![per_rank % batch_size] } else { vec![] },
            "{what}"
        );
        for (planned, indices) in rank {
            assert_eq!(planned.position, indices[0], "{what}");
            assert!(planned.valid == indices.len() || rule == Remainder::Exact, "{what}");
        }
    }
    // The ranks read a range of the order, followed by the order from its start again.
    let stretch = (0..per_rank * world_size).map(|place| (start + place) % len);
    let all = ranks.iter().flatten().flat_map(|(_, indices)| indices.iter().copied());
    assert_eq!(counts(len, all), counts(len, stretch), "{what}");
    let own = ranks.iter().flatten().flat_map(|(planned, indices)| indices[..planned.valid].iter().copied());
    if rule == Remainder::Exact {
        let end = (start + per_rank * world_size).min(len);
        assert!(sorted(own.collect()).into_iter().eq(start..end), "each sample counts once: {what}");
    }
    // Step by step, too: the ranks' batches of one step are adjacent.
    for batch in 0..ranks[0].len() {
        let first = start + batch * batch_size * world_size;
        let step = ranks.iter().flat_map(|rank| rank[batch].1.iter().copied());
        let count = ranks[0][batch].1.len() * world_size;
        assert_eq!(sorted(step.collect()), sorted((first..first + count).map(|place| place % len).collect()), "{what}");
    }
}

#[test]
fn every_rank_has_as_many_batches_of_the_same_sizes_and_together_they_are_the_epoch() {
    for len in 0..60 {
        for batch_size in [1, 2, 3, 7, 16, 64] {
            for last in LAST_BATCHES {
                let plan = EpochPlan::of_samples(in_sequence(len), batch_size, last).unwrap();
                assert_eq!(plan.positions(), len);
                for (world_size, rule) in (1..=6).flat_map(|world_size| REMAINDERS.map(|rule| (world_size, rule))) {
                    let ranks = of_ranks(&plan, world_size, rule);
                    assert_dealt(&ranks, (len, 0), batch_size, last, rule);
                }
            }
        }
    }
}

#[test]
fn a_plan_that_starts_at_the_end_of_a_batch_is_the_rest() {
    for len in (0..40).chain([100]) {
        for (world_size, rule) in (1..=5).flat_map(|world_size| REMAINDERS.map(|rule| (world_size, rule))) {
            for (batch_size, last) in [1, 3, 8].into_iter().flat_map(|size| LAST_BATCHES.map(|last| (size, last))) {
                let plan = EpochPlan::of_samples(in_sequence(len), batch_size, last).unwrap();
                let whole = of_ranks(&plan, world_size, rule);
                let of_first = plan.clone().shard(Shard::new(0, world_size).unwrap(), rule);
                for received in 0..=of_first.len() {
                    let position = of_first.position_after(received);
                    let per_rank = if rule == Remainder::Drop { len / world_size } else { len.div_ceil(world_size) };
                    assert_eq!(position, ((received * batch_size).min(per_rank) * world_size).min(len));
                    let rest = of_ranks(&plan.clone().start_at(position), world_size, rule);
                    assert!(rest.iter().zip(&whole).all(|(rest, whole)| rest[..] == whole[received..]));
                }
                let at_the_end = plan.start_at(len + 5);
                assert!(at_the_end.is_empty() && at_the_end.position_after(0) == len);
            }
        }
    }
}

#[test]
fn batches_are_dealt_whole() {
    let sizes = [3, 1, 4, 1, 5];
    let batches = || Arc::new(ExplicitOrder::in_batches((0..14).collect(), &sizes));
    for (world_size, rule) in (1..=7).flat_map(|world_size| REMAINDERS.map(|rule| (world_size, rule))) {
        for start in 0..=5 {
            let plan = EpochPlan::of_batches(batches()).start_at(start);
            assert_eq!((plan.positions(), plan.position_after(1)), (5, (start + 1).min(5)));
            let ranks = of_ranks(&plan, world_size, rule);
            // The same as for samples, with the numbers of batches in the place of samples.
            let as_samples: Vec<Planned> = (ranks.iter())
                .map(|rank| {
                    let number = |(planned, indices): &(PlannedBatch, Vec<usize>)| {
                        let mut expected = Vec::new();
                        EpochBatches::indices(&*batches(), planned.position, &mut expected);
                        assert_eq!(indices, &expected);
                        assert!(planned.valid == 0 || planned.valid == indices.len());
                        (PlannedBatch { valid: usize::from(planned.valid > 0), ..*planned }, vec![planned.position])
                    };
                    rank.iter().map(number).collect()
                })
                .collect();
            assert_dealt(&as_samples, (5, start), 1, LastBatch::Keep, rule);
        }
    }
}

#[test]
fn a_plan_reports_the_batches_of_other_ranks() {
    let plan = EpochPlan::of_samples(in_sequence(29), 3, LastBatch::Keep).unwrap();
    let plan = plan.shard(Shard::new(1, 4).unwrap(), Remainder::Exact).start_at(5);
    assert_eq!((plan.rank(), plan.world_size()), (1, 4));
    for rank in 0..4 {
        let fresh = EpochPlan::of_samples(in_sequence(29), 3, LastBatch::Keep).unwrap();
        let fresh = fresh.shard(Shard::new(rank, 4).unwrap(), Remainder::Exact).start_at(5);
        let other = plan.of_rank(rank).unwrap();
        assert_eq!(other.rank(), rank);
        assert_eq!(read(&other), read(&fresh));
    }
    assert!(plan.of_rank(4).is_err());
}

#[test]
fn pads_wrap_to_the_start_of_the_epoch_also_when_a_plan_starts_late() {
    let plan = EpochPlan::of_samples(in_sequence(10), 2, LastBatch::Keep).unwrap().start_at(8);
    let ranks = of_ranks(&plan, 7, Remainder::Exact);
    let read: Vec<_> = ranks.iter().map(|rank| (rank[0].0.position, rank[0].0.valid, rank[0].1.clone())).collect();
    let own = [(8, 1, vec![8]), (9, 1, vec![9])];
    let padding = (0..5).map(|position| (position, 0, vec![position]));
    assert!(read.into_iter().eq(own.into_iter().chain(padding)));
}

#[test]
fn the_longest_orders_do_not_overflow() {
    for len in [usize::MAX, usize::MAX - 1, usize::MAX / 2 + 1] {
        for (world_size, batch_size) in [(1, 1), (1, 1000), (7, 3), (1 << 40, 1 << 10), (usize::MAX, 5)] {
            for (rule, last) in REMAINDERS.into_iter().flat_map(|rule| LAST_BATCHES.map(|last| (rule, last))) {
                let plan = EpochPlan::of_samples(in_sequence(len), batch_size, last).unwrap();
                let shard = Shard::new(world_size - 1, world_size).unwrap();
                let plan = plan.shard(shard, rule);
                let local = if rule == Remainder::Drop { len / world_size } else { len.div_ceil(world_size) };
                let batches = if last == LastBatch::Drop { local / batch_size } else { local.div_ceil(batch_size) };
                assert_eq!(plan.len(), batches);
                if batches == 0 {
                    continue;
                }
                let (mut indices, batch) = (Vec::new(), batches - 1);
                let planned = plan.batch(batch, &mut indices);
                let place = |local: usize| local as u128 * world_size as u128 + (world_size - 1) as u128;
                let places = (batch * batch_size..).take(indices.len()).map(place);
                assert!(indices.iter().map(|&index| index as u128).eq(places.clone().map(|place| place % len as u128)));
                let own = places.filter(|place| *place < len as u128 || rule != Remainder::Exact).count();
                assert_eq!((planned.position, planned.valid), (indices[0], own));
                let positions = batch as u128 * batch_size as u128 * world_size as u128;
                assert_eq!(plan.position_after(batch) as u128, positions.min(len as u128));
                let end = (local as u128 * world_size as u128).min(len as u128);
                assert_eq!(plan.position_after(usize::MAX) as u128, end);
                // A plan that starts there has only the last batch.
                let rest = plan.clone().start_at(plan.position_after(batch));
                let mut again = Vec::new();
                assert_eq!((rest.len(), rest.batch(0, &mut again)), (1, planned));
                assert_eq!(again, indices);
            }
        }
        let in_one = EpochPlan::of_samples(in_sequence(len), usize::MAX, LastBatch::Keep).unwrap();
        assert_eq!((in_one.len(), in_one.position_after(1)), (1, len));
        let none = EpochPlan::of_samples(in_sequence(usize::MAX - 1), usize::MAX, LastBatch::Drop).unwrap();
        assert_eq!(none.len(), 0);
    }
}

#[test]
fn a_batch_size_of_zero_has_torchs_error() {
    let Err(error) = EpochPlan::of_samples(in_sequence(5), 0, LastBatch::Keep) else { panic!("batches of nothing") };
    assert!(matches!(error, Error::InvalidArgument { argument: "batch_size", .. }));
    assert!(error.to_string().contains("batch_size should be a positive integer value, but got batch_size=0"));
}

#[test]
#[should_panic(expected = "batch 2 of an epoch of 2 batches")]
fn a_batch_past_the_end_is_refused() {
    let plan = EpochPlan::of_samples(in_sequence(11), 3, LastBatch::Keep).unwrap();
    plan.shard(Shard::new(0, 2).unwrap(), Remainder::Pad).batch(2, &mut Vec::new());
}

#[test]
fn only_batches_of_the_plan_can_be_peeked_at() {
    let plan = EpochPlan::of_samples(in_sequence(11), 3, LastBatch::Keep).unwrap();
    let mut peeked = Vec::new();
    plan.peek_indices(3, &mut peeked);
    assert_eq!(peeked, [9, 10]);
    plan.peek_indices(4, &mut peeked);
    assert_eq!(peeked, [9, 10]);
}

#[test]
fn an_explicit_order_yields_its_indices() {
    let order = ExplicitOrder::new(vec![9, 2, 2, usize::MAX]);
    assert_eq!((EpochOrder::len(&order), EpochBatches::len(&order)), (4, 0));
    crate::conformance::blocks_agree(&order, &[9, 2, 2, usize::MAX]);
    let batches = ExplicitOrder::in_batches(vec![9, 2, 2], &[0, 2, 0, 1]);
    assert_eq!((EpochOrder::len(&batches), EpochBatches::len(&batches)), (3, 4));
    let plan = EpochPlan::of_batches(Arc::new(batches));
    let read: Vec<_> = read(&plan).into_iter().map(|(planned, indices)| (planned.valid, indices)).collect();
    assert_eq!(read, [(0, vec![]), (2, vec![9, 2]), (0, vec![]), (1, vec![2])]);
    let nothing = ExplicitOrder::in_batches(vec![], &[]);
    assert!(EpochOrder::is_empty(&nothing) && EpochBatches::is_empty(&nothing));
}

#[test]
#[should_panic(expected = "the batches hold all indices")]
fn batches_that_leave_an_index_out_are_refused() {
    ExplicitOrder::in_batches(vec![1, 2, 3], &[1, 1]);
}

proptest! {
    #[test]
    fn a_plan_follows_the_order(
        len in 0_usize..400, (batch_size, world_size) in (1_usize..40, 1_usize..9), start in 0_usize..400,
        rule in prop::sample::select(&REMAINDERS[..]), last in prop::sample::select(&LAST_BATCHES[..]), seed: u64,
    ) {
        let random = Arc::new(RandomSampler::new(len, seed));
        let twice = RepeatSampler::in_a_row(random.clone(), 2).with_num_samples(len);
        for order in [random.order(1)?, twice.order(1)?] {
            let order: Arc<dyn EpochOrder> = order.into();
            let ranks = of_ranks(&EpochPlan::of_samples(order.clone(), batch_size, last)?.start_at(start), world_size, rule);
            let model = of_ranks(&EpochPlan::of_samples(in_sequence(len), batch_size, last)?.start_at(start), world_size, rule);
            assert_dealt(&model, (len, start.min(len)), batch_size, last, rule);
            for ((planned, indices), (place, positions)) in ranks.iter().flatten().zip(model.iter().flatten()) {
                prop_assert_eq!(planned, place);
                prop_assert!(indices.iter().copied().eq(positions.iter().map(|&position| order.index_at(position))));
            }
        }
    }

    #[test]
    fn ranks_and_batch_sizes_may_change_at_the_end_of_any_batch(
        len in 0_usize..300, stretches in prop::collection::vec((1_usize..20, 1_usize..7, 0_usize..6), 0..6),
        (batch_size, world_size) in (1_usize..20, 1_usize..7), rule in prop::sample::select(&REMAINDERS[..]),
    ) {
        let (mut read, mut position) = (Vec::new(), 0);
        let stretches = stretches.into_iter().chain([(batch_size, world_size, usize::MAX)]);
        for (batch_size, world_size, batches) in stretches {
            let plan = EpochPlan::of_samples(in_sequence(len), batch_size, LastBatch::Keep)?.start_at(position);
            for (planned, indices) in of_ranks(&plan, world_size, rule).iter().flat_map(|rank| rank.iter().take(batches)) {
                read.extend_from_slice(&indices[..planned.valid]);
            }
            let plan = plan.shard(Shard::new(0, world_size)?, rule);
            position = plan.position_after(batches.min(plan.len()));
        }
        let times = counts(len, read.iter().copied());
        match rule {
            Remainder::Exact => prop_assert!(times.iter().all(|&times| times == 1), "{:?}", times),
            Remainder::Pad => prop_assert!(times.iter().all(|&times| times >= 1) && read.len() < len + 7),
            Remainder::Drop => {
                prop_assert!(times.iter().all(|&times| times <= 1));
                prop_assert!(sorted(read.clone()).into_iter().eq(0..read.len()) && len - read.len() < world_size);
            }
        }
    }
}
