//! Shards: the same number for every rank, nothing lost, and padding is marked.

use std::collections::HashMap;

use proptest::prelude::*;
use sluicegate::internal::ShardPosition;
use sluicegate::{Error, Remainder, Shard};

fn owned(rank: usize, world_size: usize, len: usize, remainder: Remainder) -> Vec<ShardPosition> {
    let shard = Shard::new(rank, world_size).expect("the rank is in the world");
    let count = shard.len_of(len, remainder);
    assert_eq!(shard.position_at(count, len, remainder), None);
    assert_eq!(shard.position_at(usize::MAX, len, remainder), None);
    (0..count).map(|local| shard.position_at(local, len, remainder).expect("it is below the count")).collect()
}

#[test]
fn a_rank_outside_the_world_is_refused() {
    for (rank, world_size) in [(4, 4), (5, 4), (0, 0)] {
        let error = Shard::new(rank, world_size).expect_err("there is no such rank");
        assert!(matches!(error, Error::InvalidArgument { argument: "shard", .. }));
        let message = error.to_string();
        assert!(message.contains(&format!("rank {rank}")), "{message}");
        assert!(message.contains(&format!("world of {world_size}")), "{message}");
    }
    let shard = Shard::new(2, 3).expect("the rank is in the world");
    assert_eq!((shard.rank(), shard.world_size()), (2, 3));
    assert_eq!(Shard::whole(), Shard::new(0, 1).expect("the rank is in the world"));
}

#[test]
fn positions_are_dealt_in_turn_and_wrap_around() {
    use ShardPosition::{Own, Padding};
    assert_eq!(owned(1, 3, 7, Remainder::Pad), [Own(1), Own(4), Own(0)]);
    assert_eq!(owned(1, 3, 7, Remainder::Exact), [Own(1), Own(4), Padding(0)]);
    assert_eq!(owned(2, 3, 7, Remainder::Exact), [Own(2), Own(5), Padding(1)]);
    assert_eq!(owned(1, 3, 7, Remainder::Drop), [Own(1), Own(4)]);
}

#[test]
fn a_world_larger_than_the_epoch_wraps_more_than_once() {
    let all: Vec<_> = (0..8).flat_map(|rank| owned(rank, 8, 3, Remainder::Pad)).map(ShardPosition::position).collect();
    assert_eq!(all, [0, 1, 2, 0, 1, 2, 0, 1]);
    assert!((0..8).all(|rank| owned(rank, 8, 3, Remainder::Drop).is_empty()));
}

#[test]
fn an_empty_epoch_is_empty_on_every_rank() {
    for remainder in [Remainder::Pad, Remainder::Drop, Remainder::Exact] {
        assert!((0..4).all(|rank| owned(rank, 4, 0, remainder).is_empty()));
    }
}

#[test]
fn the_longest_epoch_does_not_overflow() {
    let shard = Shard::new(2, 3).expect("the rank is in the world");
    let len = usize::MAX - 1;
    let count = shard.len_of(len, Remainder::Exact);
    assert_eq!(shard.position_at(count - 1, len, Remainder::Exact), Some(ShardPosition::Padding(0)));
}

proptest! {
    #[test]
    fn the_ranks_together_read_the_epoch(len in 0_usize..300, world_size in 1_usize..40) {
        for remainder in [Remainder::Pad, Remainder::Drop, Remainder::Exact] {
            let shards: Vec<_> = (0..world_size).map(|rank| owned(rank, world_size, len, remainder)).collect();
            prop_assert!(shards.iter().all(|shard| shard.len() == shards[0].len()));

            let mut times: HashMap<usize, usize> = HashMap::new();
            for position in shards.iter().flatten() {
                *times.entry(position.position()).or_default() += 1;
            }
            prop_assert!(times.keys().all(|&position| position < len));
            let total: usize = times.values().sum();
            let own: Vec<_> = (shards.iter().flatten())
                .filter_map(|position| match position { ShardPosition::Own(place) => Some(*place), _ => None })
                .collect();
            match remainder {
                Remainder::Drop => {
                    prop_assert_eq!(total, len - len % world_size);
                    prop_assert_eq!(times.len(), total);
                    prop_assert!(times.keys().all(|&position| position < total));
                }
                Remainder::Pad => {
                    prop_assert_eq!(times.len(), len);
                    prop_assert_eq!(own.len(), total);
                    prop_assert!(total < len + world_size && total.is_multiple_of(world_size));
                }
                Remainder::Exact => {
                    let mut own = own;
                    own.sort_unstable();
                    prop_assert!(own.into_iter().eq(0..len));
                    prop_assert!(total < len + world_size && total.is_multiple_of(world_size));
                }
            }
        }
    }

    #[test]
    fn a_step_of_all_ranks_reads_neighbors(len in 1_usize..10_000, world_size in 1_usize..40) {
        let positions = |rank| owned(rank, world_size, len, Remainder::Pad);
        let first: Vec<_> = (0..world_size).map(|rank| positions(rank)[0].position()).collect();
        prop_assert!(first.into_iter().eq((0..world_size).map(|rank| rank % len)));
    }
}
