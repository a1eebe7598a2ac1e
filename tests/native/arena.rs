//! Arenas and shared segments: grants and leases never overlap, all of their memory is returned, and little stays warm.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use sluicegate::Error;
use sluicegate::internal::{Arena, Bell, EventBell, Grant, Lease, Ring, Segment};

use crate::own_process::alone;

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
const PAGE: usize = 4096;

fn arena(bytes: usize, free_slots: usize) -> Arc<Arena> {
    Arena::new(Arc::new(Segment::shared(bytes).unwrap().0), 0..bytes, free_slots)
}

/// Returns the shared memory of this process that is in RAM, in bytes.
fn shared_resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[derive(Debug, Clone)]
enum Step {
    Grant(usize),
    Reserve(usize),
    /// Splits, leases, and drops refer to held objects by number, and to parts of them in thousandths.
    Split(usize, usize),
    Lease(usize, usize, usize),
    DropGrant(usize),
    DropLease(usize),
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![1..5_usize, 1..300_usize, 3_000..9_000_usize, 1..MIB, Just(400 * MIB), 0..600 * MIB]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => sizes().prop_map(Step::Grant),
        1 => sizes().prop_map(Step::Reserve),
        1 => (any::<usize>(), 0..1001_usize).prop_map(|(which, part)| Step::Split(which, part)),
        4 => (any::<usize>(), 0..1001_usize, 0..1001_usize).prop_map(|(which, at, part)| Step::Lease(which, at, part)),
        1 => any::<usize>().prop_map(Step::DropGrant),
        3 => any::<usize>().prop_map(Step::DropLease),
    ]
}

/// The model of what is held: every lease with the range that it must have.
struct Model {
    arena: Arc<Arena>,
    base: usize,
    grants: Vec<Grant>,
    leases: Vec<(Lease, Range<usize>)>,
    recent: VecDeque<usize>,
    free_slots: usize,
}

impl Model {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Grant(bytes) => {
                if let Some(grant) = self.arena.grant(bytes) {
                    let range = grant.range();
                    assert!(range.len() >= bytes && range.len() <= bytes + (bytes / 4).max(64));
                    assert!(range.start.is_multiple_of(if bytes >= PAGE { PAGE } else { 64 }));
                    self.grants.push(grant);
                }
            }
            Step::Reserve(bytes) => {
                if let Some(grant) = self.arena.reserve(bytes) {
                    assert!(grant.range().len() >= bytes && grant.range().start.is_multiple_of(PAGE));
                    self.grants.push(grant);
                }
            }
            Step::Split(which, part) if !self.grants.is_empty() => {
                let grant = self.grants.swap_remove(which % self.grants.len());
                let range = grant.range();
                let (front, back) = grant.split_at(range.len() / 1000 * part);
                assert_eq!(
                    (front.range().start, front.range().end, back.range().end),
                    (range.start, back.range().start, range.end)
                );
                self.grants.extend([front, back]);
            }
            Step::Lease(which, at, part) if !self.grants.is_empty() => {
                let grant = self.grants.swap_remove(which % self.grants.len());
                let range = grant.range();
                let offset = range.len() * at / 1000 / 64 * 64;
                let bytes = (range.len() - offset) / 1000 * part;
                let lease = grant.into_lease(offset, bytes);
                assert_eq!((lease.len(), lease.address().addr().get()), (bytes, self.base + range.start + offset));
                self.leases.push((lease, range.start + offset..range.start + offset + bytes));
                self.recent.push_back(bytes);
                if self.recent.len() > 2 * self.free_slots + 8 {
                    self.recent.pop_front();
                }
            }
            Step::DropGrant(which) if !self.grants.is_empty() => {
                self.grants.swap_remove(which % self.grants.len());
            }
            Step::DropLease(which) if !self.leases.is_empty() => {
                self.leases.swap_remove(which % self.leases.len());
            }
            _ => {}
        }
        self.check();
    }

    fn check(&self) {
        let held = self.leases.iter().map(|(_, range)| range.clone());
        let mut held: Vec<Range<usize>> = held.chain(self.grants.iter().map(Grant::range)).collect();
        held.retain(|range| !range.is_empty());
        held.sort_by_key(|range| range.start);
        assert!(held.windows(2).all(|pair| pair[0].end <= pair[1].start), "{held:?} overlap");
        let expected = self.recent.iter().copied().max().unwrap_or(0);
        assert_eq!(self.arena.expected(), expected);
        let limit = (self.free_slots * (expected + expected / 4 + 64)).max(MIB);
        assert!(self.arena.warm_bytes() <= limit, "{} warm of {limit}", self.arena.warm_bytes());
        // A slot may be up to twice as large as its contents, and a size class larger than that.
        let leased: usize = self.leases.iter().map(|(_, range)| range.len()).sum();
        let most: usize = self.leases.iter().map(|(_, range)| 2 * range.len() + 64).sum();
        assert!((leased..=most).contains(&self.arena.leased_bytes()), "{} for {leased}", self.arena.leased_bytes());
        assert!(held.is_empty() || !self.arena.is_unused());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn grants_never_overlap_and_are_all_returned(
        steps in proptest::collection::vec(steps(), 1..120),
        free_slots in 0..6_usize,
    ) {
        let arena = arena(2 * GIB, free_slots);
        let base = {
            let grant = arena.grant(64).unwrap();
            let start = grant.range().start;
            grant.into_lease(0, 0).address().addr().get() - start
        };
        let mut model =
            Model { arena, base, grants: vec![], leases: vec![], recent: VecDeque::from([0]), free_slots };
        steps.iter().for_each(|step| model.step(step));
        model.grants.clear();
        model.leases.clear();
        model.check();
        prop_assert!(model.arena.is_unused());
        // Small batches again: memory that the large ones touched is returned, and all the room is available again.
        for _ in 0..2 * free_slots + 8 {
            drop(model.arena.grant(4).unwrap().into_lease(0, 4));
        }
        prop_assert_eq!(model.arena.expected(), 4);
        prop_assert!(model.arena.warm_bytes() <= MIB);
        prop_assert!(model.arena.reserve(2 * GIB).is_some(), "everything is one range again");
    }
}

#[test]
fn memory_is_reused_and_released_when_batches_shrink() {
    alone("arena::memory_is_reused_and_released_when_batches_shrink", "", || {
        let arena = arena(4 * GIB, 3);
        let batch = |bytes: usize| {
            let mut lease = arena.grant(bytes.max(arena.expected())).unwrap().into_lease(0, bytes);
            lease.bytes_mut().fill(1);
            lease
        };
        let first = batch(20 * MIB).address();
        for round in 0..100 {
            assert_eq!(batch(20 * MIB).address(), first, "round {round}: what is warm is used first");
        }
        let held: Vec<Lease> = (0..10).map(|_| batch(20 * MIB)).collect();
        assert!(shared_resident() >= 200 * MIB);
        drop(held);
        assert!(shared_resident() <= 3 * 20 * MIB + 4 * MIB, "{} of three free batches", shared_resident());
        (0..14).for_each(|_| drop(batch(1000)));
        assert!(shared_resident() <= 2 * MIB, "{} after batches shrank", shared_resident());
        assert!(arena.is_unused());
    });
}

#[test]
fn a_reserved_extent_uses_memory_only_for_the_kept_part() {
    alone("arena::a_reserved_extent_uses_memory_only_for_the_kept_part", "", || {
        let bytes = 1 << 40;
        let arena = arena(bytes, 2);
        let near = arena.grant(5000).unwrap();
        let extent = arena.reserve(bytes / 2).unwrap();
        assert!(extent.range().end == bytes && near.range().start == 0);
        let mut lease = extent.into_lease(0, 64 * MIB);
        lease.bytes_mut().fill(3);
        assert!(shared_resident() < 66 * MIB);
        drop((lease, near));
        assert!(arena.is_unused() && arena.warm_bytes() <= 2 * 80 * MIB);
        assert!(arena.reserve(bytes / 8 * 7).is_some(), "what was not kept is cold again");
    });
}

#[test]
fn a_full_arena_grants_nothing_until_a_lease_returns() {
    let arena = arena(MIB, 1);
    let held: Vec<Grant> = std::iter::from_fn(|| arena.grant(100_000)).collect();
    assert!(held.len() >= 8);
    for bytes in [100_000, MIB, MIB + 1, usize::MAX, usize::MAX - 4096, usize::MAX / 2] {
        assert!(arena.grant(bytes).is_none() && arena.reserve(bytes).is_none(), "{bytes}");
    }
    drop(held);
    assert!(arena.grant(MIB).is_some() && arena.is_unused());
}

#[test]
fn a_million_small_batches_can_be_kept() {
    let arena = arena(4 * GIB, 4);
    let kept: Vec<Lease> = (0..1_000_000).map(|_| arena.grant(100).unwrap().into_lease(0, 100)).collect();
    assert_eq!(arena.leased_bytes(), 128_000_000);
    let (even, odd): (Vec<_>, Vec<_>) = kept.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    drop(even);
    drop(odd);
    assert!(arena.is_unused() && arena.warm_bytes() <= MIB);
}

#[test]
fn threads_share_an_arena() {
    let arena = arena(256 * MIB, 2);
    thread::scope(|scope| {
        for seed in 0..4_u8 {
            let arena = &arena;
            scope.spawn(move || {
                for round in 0..500_usize {
                    let bytes = (round * 7919 + usize::from(seed) * 104_729) % (3 * MIB) + 1;
                    let mut lease = arena.grant(bytes).unwrap().into_lease(0, bytes);
                    lease.bytes_mut().fill(seed);
                    assert!(lease.bytes().iter().all(|byte| *byte == seed));
                }
            });
        }
    });
    assert!(arena.is_unused());
}

#[test]
fn claims_of_a_worker_are_checked() {
    let arena = arena(MIB, 1);
    let grant = arena.grant(1000).unwrap();
    let len = grant.range().len();
    assert!(grant.fits(0, len) && grant.fits(64, len - 64) && grant.fits(len, 0));
    assert!(
        ![(0, len + 1), (1, 5), (len, 1), (64, usize::MAX), (usize::MAX - 63, 64)]
            .iter()
            .any(|&(offset, bytes)| grant.fits(offset, bytes))
    );
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| grant.into_lease(64, len)));
    assert!(outcome.is_err() && arena.is_unused());
}

#[test]
fn words_and_leases_do_not_overlap() {
    let refused = |make: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(make)).is_err();
    let (segment, file) = Segment::shared(MIB).unwrap();
    let segment = Arc::new(segment);
    let _bell = Bell::new(Arc::clone(&segment), 0);
    let _event = EventBell::new(Arc::clone(&segment), 64).unwrap();
    let arena = Arena::new(Arc::clone(&segment), 2 * PAGE..MIB, 1);
    let _ring = Ring::new(Arc::clone(&segment), 128, 4);
    assert!(refused(&|| drop(Ring::new(Arc::clone(&segment), 2 * PAGE, 4))), "a ring in the arena");
    assert!(refused(&|| drop(Arena::new(Arc::clone(&segment), 2 * PAGE..MIB, 1))), "two arenas");
    let elsewhere = Arc::new(Segment::map_shared(&file, MIB).unwrap());
    assert!(refused(&|| drop(Arena::new(Arc::clone(&elsewhere), 2 * PAGE..MIB, 1))), "a worker's arena");
    let fresh = Arc::new(Segment::shared(MIB).unwrap().0);
    let _bell = Bell::new(Arc::clone(&fresh), 2 * PAGE);
    assert!(refused(&|| drop(Arena::new(Arc::clone(&fresh), PAGE..MIB, 1))), "an arena over words");
    let numbers = Arc::new(Segment::from_vec(vec![0_u64; 512]));
    assert!(refused(&|| drop(Bell::new(Arc::clone(&numbers), 0))), "memory that is only read");
    assert!(arena.grant(1).unwrap().range().start >= 2 * PAGE);
}

fn refusal(bytes: usize) -> String {
    let refused = Segment::shared(bytes).err().unwrap();
    assert!(matches!(refused, Error::SharedMemory { .. }), "{refused:?}");
    refused.to_string()
}

#[test]
fn too_little_address_space_is_named() {
    alone("arena::too_little_address_space_is_named", "ulimit -v 4000000;", || {
        assert!(refusal(8 * GIB).contains("(ulimit -v)"));
        assert!(Segment::shared(MIB).is_ok());
    });
    refusal(usize::MAX);
}

#[test]
fn a_file_size_limit_is_an_error_not_a_signal() {
    alone("arena::a_file_size_limit_is_an_error_not_a_signal", "ulimit -f 100000;", || {
        assert!(refusal(8 * GIB).contains("(ulimit -f)"));
        assert!(Segment::shared(MIB).is_ok());
    });
}

#[test]
fn too_few_descriptors_are_named() {
    alone("arena::too_few_descriptors_are_named", "ulimit -n 20;", || {
        let segments: Vec<_> = std::iter::from_fn(|| Segment::shared(PAGE).ok()).collect();
        assert!(refusal(PAGE).contains("(ulimit -n)"));
        let event_bell = EventBell::new(Arc::new(Segment::anonymous(PAGE).unwrap()), 0);
        assert!(event_bell.err().unwrap().to_string().contains("(ulimit -n)"));
        drop(segments);
        assert!(Segment::shared(PAGE).is_ok());
    });
}
