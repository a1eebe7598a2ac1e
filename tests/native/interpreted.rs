//! Tests that `make miri` runs in addition to those of `collate` and `batch`: every path in `memory` that involves
//! addresses and needs no second process, in sizes that an interpreter can handle.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sluicegate::internal::{Arena, Array, Bell, Lease, Ring, Segment, Slab, widen};
use sluicegate::{DType, DataLoader, Error, InMemory, ItemLoader, reuse_batches};

/// Sizes around a cache line, a page and a quarter of a slab's chunk.
const SIZES: [usize; 6] = [0, 1, 64, 65, 4097, 9000];

#[test]
fn leases_of_a_slab_go_through_threads_and_outlive_it() {
    let slab = Slab::new(2);
    let mut held = VecDeque::new();
    thread::scope(|scope| {
        for round in 0..12_usize {
            let mut lease = slab.lease(SIZES[round % SIZES.len()]).unwrap();
            lease.bytes_mut().fill(round as u8);
            held.push_back((round, lease));
            if held.len() > 4 {
                let (round, lease): (_, Lease) = held.pop_front().unwrap();
                scope.spawn(move || assert!(lease.bytes().iter().all(|byte| *byte == round as u8)));
            }
        }
    });
    drop(slab);
    assert!(held.iter().all(|(round, lease)| lease.bytes().iter().all(|byte| *byte == *round as u8)));
}

#[test]
fn grants_and_leases_of_an_arena_keep_apart() {
    let segment = Arc::new(Segment::shared(1 << 16).unwrap().0);
    let arena = Arena::new(Arc::clone(&segment), 4096..1 << 16, 2);
    let mut leases = Vec::new();
    for (round, bytes) in SIZES.into_iter().enumerate() {
        let grant = arena.grant(bytes).unwrap();
        let mut lease = grant.into_lease(0, bytes);
        lease.bytes_mut().fill(round as u8 + 1);
        leases.push(lease);
        if round == 3 {
            leases.remove(1);
        }
    }
    let (front, back) = arena.reserve(3 * 4096).unwrap().split_at(4096);
    let (mut front, mut back) = (front.into_lease(0, 4096), back.into_lease(64, 100));
    front.bytes_mut().fill(8);
    back.bytes_mut().fill(9);
    assert!(leases.iter().chain([&front, &back]).all(|lease| lease.bytes().windows(2).all(|pair| pair[0] == pair[1])));
    drop((leases, front, back));
    assert!(arena.is_unused());
}

#[test]
fn messages_cross_a_ring_between_threads() {
    let segment = Arc::new(Segment::shared(4096).unwrap().0);
    let there = Ring::new(Arc::clone(&segment), 0, 2);
    let bell = Bell::new(segment, 2048);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..20 {
                while !there.push([number; 8]) {
                    thread::yield_now();
                }
                bell.ring();
            }
        });
        for number in 0..20 {
            while there.is_empty() {
                bell.wait(|| !there.is_empty(), Some(Duration::from_secs(60)));
            }
            assert_eq!(there.pop(), Some([number; 8]));
        }
    });
}

#[test]
fn rows_of_every_layout_are_gathered() {
    let bytes: Vec<u8> = (0..=239).collect();
    let segment = Arc::new(Segment::from_vec(bytes.clone()));
    // Contiguous rows, rows with gaps, transposed rows, and one row repeated.
    for (item, shape, strides) in [
        (1, vec![5, 48], vec![48, 1]),
        (4, vec![5, 10], vec![48, 4]),
        (2, vec![6, 4, 5], vec![40, 2, 8]),
        (8, vec![30], vec![8]),
        (1, vec![9, 240], vec![0, 1]),
    ] {
        let array = Array::new(Arc::clone(&segment), 0, item, &shape, &strides).unwrap();
        let indices = [2, 0, 3, 3, 4];
        let mut into = vec![0; indices.len() * array.bytes_per_row()];
        array.gather(&indices, &mut into).unwrap();
        for (&index, row) in indices.iter().zip(into.chunks(array.bytes_per_row())) {
            assert_eq!(row[..item], bytes[index * strides[0]..][..item], "{shape:?} {strides:?}");
            let last: usize = shape[1..].iter().zip(&strides[1..]).map(|(size, step)| (size - 1) * step).sum();
            assert_eq!(row[row.len() - item..], bytes[index * strides[0] + last..][..item], "{shape:?} {strides:?}");
        }
        let (mut three, mut again) = (vec![0; 3 * array.bytes_per_row()], vec![0; 3 * array.bytes_per_row()]);
        array.copy_range(1..4, &mut three).unwrap();
        array.gather(&[1, 2, 3], &mut again).unwrap();
        assert_eq!(three, again);
    }
    let mut wide = vec![0; 8 * 5];
    widen(DType::UInt16, &[1, 0, 2, 0, 3, 0, 4, 0, 255, 255], &mut wide);
    assert_eq!(wide.as_chunks::<8>().0, [1_i64, 2, 3, 4, 65_535].map(i64::to_ne_bytes));
}

#[test]
fn batches_are_fetched_on_threads_into_slots_that_are_used_again() -> Result<(), Error> {
    let dataset = InMemory::from_vec("x", (0..60_i32).collect(), [3])?;
    // With a bound in bytes, the machine's memory is not queried, which Miri does not support.
    let bytes = NonZeroUsize::new(1 << 20).unwrap();
    let builder = DataLoader::builder(dataset).batch_size(4).shuffle(7).threads(2);
    let loader = builder.prefetch_bytes(bytes).build()?;
    for epoch in 0..2 {
        let mut kept = None;
        for batch in loader.epoch(epoch)?.with_ids() {
            let (batch, ids) = batch?;
            let rows = batch.field("x")?.view::<i32>()?.to_vec();
            assert!(ids.indices.iter().zip(rows.chunks(3)).all(|(&index, row)| row[0] == 3 * index as i32));
            kept.get_or_insert((batch, rows));
        }
        let (first, rows) = kept.unwrap();
        assert_eq!(first.field("x")?.view::<i32>()?, rows, "a batch that is kept stays as it was");
    }
    let collate = reuse_batches(|items: Vec<i32>, into: &mut Vec<i32>| {
        into.clear();
        into.extend(items);
        Ok(())
    });
    let loader = ItemLoader::builder((0..20).collect::<Vec<i32>>(), collate).batch_size(4).threads(2).build()?;
    let all: Vec<i32> =
        loader.epoch(0)?.map(|batch| batch.map(|batch| batch.to_vec())).collect::<Result<Vec<_>, _>>()?.concat();
    assert!(all.into_iter().eq(0..20));
    Ok(())
}
