//! Memory: slots that never overlap while they are held and are returned afterwards, and arrays read row by row.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use proptest::prelude::*;
use sluicegate::internal::{Array, Lease, Segment, Slab};
use sluicegate::{Error, TorchGenerator};

use crate::own_process::{alone, resident_bytes};

const MIB: usize = 1 << 20;

fn address(lease: &Lease) -> usize {
    lease.address().as_ptr() as usize
}

/// Asserts that no two of `leases` share a byte.
fn apart(leases: &[Lease]) {
    let mut ranges: Vec<(usize, usize)> = leases.iter().map(|lease| (address(lease), lease.len())).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?} overlap");
    }
}

#[test]
fn leases_of_any_sizes_are_aligned_and_disjoint() {
    let slab = Slab::new(3);
    let mut generator = TorchGenerator::new(7);
    let mut leases = Vec::new();
    for round in 0..3 {
        for size in [0, 1, 63, 64, 65, 100, 4095, 4097, 70_000, MIB - 1, MIB, MIB + 1, 3 * MIB] {
            leases.push(slab.lease(size).unwrap());
            leases.push(slab.lease(generator.random_u32() as usize % (size + 1)).unwrap());
        }
        assert!(leases.iter().all(|lease| address(lease).is_multiple_of(64)), "round {round}");
        apart(&leases);
        leases = leases.into_iter().enumerate().filter_map(|(at, lease)| (at % 3 != round).then_some(lease)).collect();
    }
    for (at, lease) in leases.iter_mut().enumerate() {
        lease.bytes_mut().fill(at as u8);
    }
    assert!(leases.iter().enumerate().all(|(at, lease)| lease.bytes().iter().all(|byte| *byte == at as u8)));
}

#[test]
fn only_released_slots_are_reused() {
    for bytes in [10, 5000, 3 * MIB] {
        let slab = Slab::new(4);
        let mut kept = slab.lease(bytes).unwrap();
        kept.bytes_mut().fill(7);
        let first = slab.lease(bytes).unwrap();
        let place = address(&first);
        drop(first);
        let mapped = slab.mapped_bytes();
        for round in 0..500 {
            let mut lease = slab.lease(bytes).unwrap();
            assert_eq!(address(&lease), place, "round {round}: the slot that came back last is warm");
            lease.bytes_mut().fill(round as u8);
        }
        assert_eq!(slab.mapped_bytes(), mapped);
        assert!(kept.bytes().iter().all(|byte| *byte == 7));
    }
}

#[test]
fn a_lease_outlives_its_slab_and_dies_on_any_thread() {
    for bytes in [10, 3 * MIB] {
        let slab = Slab::new(4);
        let here = slab.lease(bytes).unwrap();
        let place = address(&here);
        thread::scope(|scope| scope.spawn(move || drop(here)).join().unwrap());
        let again = slab.lease(bytes).unwrap();
        assert_eq!(address(&again), place, "dropped there, it is free here");
        let mut outlives = slab.lease(bytes).unwrap();
        drop(slab);
        outlives.bytes_mut().fill(9);
        thread::scope(|scope| {
            scope.spawn(move || assert!(outlives.bytes().iter().all(|byte| *byte == 9)));
        });
        drop(again);
    }
}

#[test]
fn released_memory_is_returned() {
    for bytes in [64, 1000, 100_000, MIB - 100, 2 * MIB] {
        let slab = Slab::new(4);
        let held: Vec<Lease> = (0..1000).map(|_| slab.lease(bytes).unwrap()).collect();
        let most = slab.mapped_bytes();
        assert!(most >= 1000 * bytes && most <= 1000 * (bytes + bytes / 4 + 64) + 8 * MIB, "{most} for {bytes}");
        apart(&held);
        drop(held);
        let least = slab.mapped_bytes();
        assert!(least <= (4 * (bytes + bytes / 4)).max(MIB) + 8 * MIB, "{least} of {most} stay for slots of {bytes}");
    }
}

#[test]
fn sizes_that_jump_do_not_pile_up() {
    alone("memory::sizes_that_jump_do_not_pile_up", "", || {
        let slab = Slab::new(4);
        let mut generator = TorchGenerator::new(7);
        for round in 0..60 {
            for bytes in [4, 64 * MIB, 4, generator.random_u32() as usize % (64 * MIB), 300_000] {
                let mut lease = slab.lease(bytes).unwrap();
                lease.bytes_mut().fill(1);
            }
            let (mapped, resident) = (slab.mapped_bytes(), resident_bytes());
            assert!(mapped < 6 * 80 * MIB, "{mapped} bytes mapped in round {round}");
            assert!(resident < 7 * 80 * MIB, "{resident} bytes resident in round {round}");
        }
    });
}

#[test]
fn a_kept_batch_takes_little_more_memory_than_its_bytes() {
    alone("memory::a_kept_batch_takes_little_more_memory_than_its_bytes", "", || {
        let slab = Slab::new(4);
        let sizes = [100_000, 1_100_000, 1_400_000, 2_200_000, 3_000_000, 4_200_000];
        for bytes in sizes {
            let before = resident_bytes();
            let mut kept: Vec<Lease> = (0..40).map(|_| slab.lease(bytes).unwrap()).collect();
            kept.iter_mut().for_each(|lease| lease.bytes_mut().fill(1));
            let taken = resident_bytes() - before;
            assert!(taken < 40 * bytes * 5 / 4 + 6 * MIB, "{taken} bytes for 40 batches of {bytes}");
            std::mem::forget(kept);
        }
    });
}

#[test]
fn impossible_sizes_are_refused() {
    let slab = Slab::new(4);
    let half = usize::MAX / 2;
    for bytes in [usize::MAX, usize::MAX - 63, usize::MAX - (2 << 20), usize::MAX - (5 << 20), half + 1, half, half / 2]
    {
        let refused = slab.lease(bytes).err().unwrap();
        assert!(matches!(refused, Error::OutOfMemory { .. }), "{bytes}: {refused:?}");
        let refused = Segment::anonymous(bytes).err().unwrap();
        assert!(matches!(refused, Error::OutOfMemory { bytes: asked, .. } if asked == bytes), "{bytes}: {refused:?}");
    }
    assert!(slab.lease(100).is_ok());
}

#[test]
fn running_out_of_address_space_is_a_temporary_error() {
    alone("memory::running_out_of_address_space_is_a_temporary_error", "ulimit -v 1000000;", || {
        let slab = Slab::new(4);
        let mut held = Vec::new();
        let refused = loop {
            match slab.lease(50 * MIB) {
                Ok(lease) => held.push(lease),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused:?}");
        let message = refused.to_string();
        assert!(message.contains("batch_size") && message.contains("ulimit -v"), "{message}");
        assert!(held.len() > 5, "{} leases", held.len());
        held.truncate(1);
        assert!(slab.lease(50 * MIB).is_ok(), "what was given back can be had again");
    });
}

#[test]
fn threads_that_take_and_drop_at_random_never_meet_in_a_slot() {
    let slab = Slab::new(5);
    let (sender, receiver) = mpsc::channel::<(u64, Lease)>();
    let check = |canary: u64, lease: &Lease| {
        let whole = lease.bytes().chunks_exact(8).all(|word| word == canary.to_ne_bytes());
        assert!(whole, "a different lease wrote to the slot of {canary:x}");
    };
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (slab, sender) = (&slab, sender.clone());
            scope.spawn(move || {
                let mut generator = TorchGenerator::new(thread);
                let mut held: BTreeMap<u32, (u64, Lease)> = BTreeMap::new();
                for step in 0..8000_u64 {
                    let size = [8, 64, 200, 5000, 40_000][generator.random_u32() as usize % 5];
                    let canary = (thread << 32) | step;
                    let mut lease = slab.lease(size).unwrap();
                    lease.bytes_mut().chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&canary.to_ne_bytes()));
                    let displaced = held.insert(generator.random_u32() % 20, (canary, lease));
                    if let Some((canary, lease)) = displaced {
                        check(canary, &lease);
                        if generator.random_u32().is_multiple_of(4) {
                            sender.send((canary, lease)).unwrap();
                        }
                    }
                }
                held.values().for_each(|(canary, lease)| check(*canary, lease));
            });
        }
        drop(sender);
        receiver.iter().for_each(|(canary, lease)| check(canary, &lease));
    });
}

#[test]
fn one_slab_is_made_however_many_threads_come_first() {
    for _ in 0..50 {
        let (slab, start) = (Slab::new(4), Barrier::new(4));
        let leases: Vec<Lease> = thread::scope(|scope| {
            let lease = || {
                start.wait();
                slab.lease(64).unwrap()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(lease)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        apart(&leases);
        assert_eq!(slab.mapped_bytes(), 4096, "all four are slots of one segment");
    }
}

#[test]
fn arrays_past_their_segment_are_refused() {
    let segment = Arc::new(Segment::from_vec(vec![0_u8; 24]));
    let array = |offset, item, shape: &[usize], strides: &[usize]| {
        Array::new(Arc::clone(&segment), offset, item, shape, strides)
    };
    assert!(array(0, 4, &[2, 3], &[12, 4]).is_ok());
    assert!(array(25, 4, &[0, 3], &[12, 4]).is_ok(), "an array without elements lies nowhere");
    let past: [(usize, &[usize], &[usize]); 8] = [
        (1, &[2, 3], &[12, 4]),
        (0, &[2, 3], &[13, 4]),
        (0, &[7], &[4]),
        (25, &[1], &[1]),
        (usize::MAX, &[1], &[1]),
        (0, &[usize::MAX], &[usize::MAX]),
        (0, &[2, 2], &[usize::MAX, 1]),
        (0, &[1 << 40, 1 << 40], &[1 << 42, 4]),
    ];
    for (offset, shape, strides) in past {
        let refused = array(offset, 4, shape, strides).err().unwrap();
        assert!(matches!(refused, Error::InvalidArgument { argument: "array", .. }), "{shape:?}: {refused}");
    }
    assert!(array(0, 4, &[], &[]).is_err() && array(0, 4, &[2, 3], &[12]).is_err());
    assert!(array(0, 1, &[2, 1 << 40, 1 << 40], &[0, 0, 0]).is_err(), "rows that no address can count");
    assert!(array(0, 1, &[2, 1 << 40, 1 << 40, 0], &[0, 0, 0, 0]).is_ok());
    assert!(Array::contiguous(Arc::clone(&segment), 0, 4, &[1, 1 << 40, 1 << 40]).is_err());
}

#[test]
#[should_panic(expected = "room for 2 rows")]
fn a_gather_into_the_wrong_room_is_refused() {
    let array = Array::contiguous(Arc::new(Segment::from_vec(vec![0_u8; 24])), 0, 4, &[2, 3]).unwrap();
    let _ = array.gather(&[0, 1], &mut [0; 23]);
}

/// Returns row `index`, element by element, following the definition of strides.
fn naive(bytes: &[u8], offset: usize, item: usize, shape: &[usize], strides: &[usize], index: usize) -> Vec<u8> {
    let mut places = vec![offset + index * strides[0]];
    for (&size, &stride) in shape[1..].iter().zip(&strides[1..]) {
        places = places.iter().flat_map(|place| (0..size).map(move |step| place + step * stride)).collect();
    }
    places.into_iter().flat_map(|place| bytes[place..place + item].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn arrays_read_as_strides_are_defined(
        item in prop::sample::select(vec![1_usize, 2, 4, 8, 16, 3]),
        axes in prop::collection::vec((0_usize..5, prop_oneof![0_usize..40, 0..4_usize]), 1..5),
        dense in any::<bool>(),
        order in Just([0, 1, 2, 3]).prop_shuffle(),
        offset in 0_usize..9,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
    ) {
        let shape: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
        let mut strides: Vec<usize> = axes.iter().map(|axis| axis.1).collect();
        if dense {
            // The axes of a dense array in any order: C, Fortran, transposed, and everything in between.
            let mut stride = item;
            for axis in order.into_iter().filter(|&axis| axis < shape.len()) {
                strides[axis] = stride;
                stride *= shape[axis].max(1);
            }
        }
        let bytes: Vec<u8> = (0..offset + 700).map(|at| (at * 31 % 251) as u8).collect();
        let reach = offset + item + shape.iter().zip(&strides).map(|(size, step)| size.saturating_sub(1) * step).sum::<usize>();
        let array = Array::new(Arc::new(Segment::from_vec(bytes.clone())), offset, item, &shape, &strides);
        let fits = shape.contains(&0) || reach <= bytes.len();
        prop_assert_eq!(array.is_ok(), fits);
        let Ok(array) = array else { return Ok(()) };
        prop_assert_eq!((array.len(), array.is_empty()), (shape[0], shape[0] == 0));
        prop_assert_eq!(array.bytes_per_row(), shape[1..].iter().product::<usize>() * item);
        if shape[0] == 0 {
            return Ok(());
        }
        let indices: Vec<usize> = picks.iter().map(|pick| pick.index(shape[0])).collect();
        for indices in [indices, (0..shape[0]).collect()] {
            let expected: Vec<u8> =
                indices.iter().flat_map(|&index| naive(&bytes, offset, item, &shape, &strides, index)).collect();
            let mut found = vec![0xa5; expected.len()];
            array.gather(&indices, &mut found).unwrap();
            prop_assert_eq!(found, expected);
        }
    }
}
