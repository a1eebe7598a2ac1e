//! Shuffle buffers: every sample comes once, in a pinned order, and a buffer resumes exactly where it was.

use proptest::prelude::*;
use sluicegate::internal::{BufferPosition, ShuffleBuffer};
use sluicegate::{BufferBound, Error};

fn of_samples(samples: usize) -> BufferBound {
    BufferBound::of_samples(samples).expect("a buffer of samples")
}

/// Reads `0..len` through `buffer`, whose slots are `slots`, until `yields` samples or all of them have come.
fn read(
    buffer: &mut ShuffleBuffer,
    slots: &mut Vec<u64>,
    len: u64,
    size_of: fn(u64) -> u64,
    yields: usize,
) -> Vec<u64> {
    let mut order = Vec::new();
    while order.len() < yields {
        while !buffer.is_full() && buffer.read() < len {
            slots.push(buffer.read());
            buffer.put(size_of(buffer.read()));
        }
        let Some(slot) = buffer.take() else { break };
        order.push(slots.swap_remove(slot));
        assert_eq!(&buffer.position().held, slots, "the buffer's ordinals are those of the samples");
        assert_eq!(buffer.oldest(), slots.iter().min().copied());
    }
    order
}

fn order(bound: BufferBound, place: [u64; 4], len: u64) -> Vec<u64> {
    let [seed, epoch, rank, worker] = place;
    let mut buffer = ShuffleBuffer::new(bound, seed, epoch, rank, worker);
    read(&mut buffer, &mut Vec::new(), len, |_| 1, usize::MAX)
}

#[test]
fn orders_never_change() {
    let golden: &[(usize, [u64; 4], &[u64])] = &[
        (1, [7, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7]),
        (3, [7, 0, 0, 0], &[1, 3, 2, 0, 5, 6, 7, 4]),
        (3, [7, 1, 0, 0], &[2, 1, 0, 4, 5, 7, 3, 6]),
        (3, [7, 0, 1, 0], &[2, 1, 3, 4, 5, 6, 0, 7]),
        (3, [7, 0, 0, 1], &[0, 1, 3, 2, 5, 7, 4, 6]),
        (100, [u64::MAX, u64::MAX, u64::MAX, u64::MAX], &[7, 3, 6, 5, 1, 4, 2, 0]),
    ];
    for &(samples, place, expected) in golden {
        assert_eq!(order(of_samples(samples), place, 8), expected, "{samples} samples at {place:?}");
    }
}

#[test]
fn ranks_and_workers_have_different_seeds() {
    let places = [[7, 0, 0, 1], [7, 0, 1, 0], [7, 1, 0, 0], [8, 0, 0, 0], [7, 0, 1, 1], [7, 0, 0, 0], [0, 7, 0, 0]];
    for (at, one) in places.iter().enumerate() {
        for other in &places[at + 1..] {
            assert_ne!(order(of_samples(50), *one, 200), order(of_samples(50), *other, 200), "{one:?} {other:?}");
        }
    }
}

#[test]
fn every_sample_held_is_equally_likely_to_come_next() {
    // The place of sample 0 of 10 in buffers that hold all of them: 6 standard deviations around a tenth.
    let mut places = [0_u32; 10];
    for epoch in 0..10_000 {
        let order = order(of_samples(10), [3, epoch, 0, 0], 10);
        places[order.iter().position(|&ordinal| ordinal == 0).unwrap()] += 1;
    }
    assert!(places.iter().all(|&count| count.abs_diff(1000) < 180), "{places:?}");
}

#[test]
fn a_sample_comes_one_buffer_later_on_average() {
    let order = order(of_samples(100), [5, 0, 0, 0], 200_000);
    let delays: Vec<i64> = (0..).zip(&order).map(|(place, &ordinal)| place - ordinal as i64).collect();
    assert!(delays.iter().all(|&delay| delay >= -99), "nothing comes before it was read");
    let late = &delays[1000..199_000];
    let mean = late.iter().sum::<i64>() as f64 / late.len() as f64;
    assert!(mean.abs() < 3.0, "{mean}");
    let spread = (late.iter().map(|&delay| (delay as f64 - mean).powi(2)).sum::<f64>() / late.len() as f64).sqrt();
    // The spread of the geometric distribution.
    assert!((95.0..105.0).contains(&spread), "{spread}");
}

#[test]
fn a_buffer_of_bytes_is_full_with_the_sample_that_reaches_them() {
    let bound = BufferBound::new(usize::MAX, 10).expect("a buffer of bytes");
    let mut buffer = ShuffleBuffer::new(bound, 0, 0, 0, 0);
    buffer.put(9);
    assert!(!buffer.is_full());
    buffer.put(100);
    assert!(buffer.is_full());
    buffer.take();
    buffer.take();
    assert!(!buffer.is_full() && buffer.take().is_none());
    for _ in 0..3 {
        buffer.put(u64::MAX);
    }
    for _ in 0..3 {
        assert!(buffer.is_full());
        buffer.take();
    }
    assert!(!buffer.is_full());
    assert_eq!((buffer.read(), buffer.yielded()), (5, 5));
}

#[test]
fn a_buffer_that_holds_nothing_is_refused() {
    for bound in [BufferBound::new(0, 5), BufferBound::new(5, 0)] {
        assert!(matches!(bound, Err(Error::InvalidArgument { .. })));
    }
}

#[test]
fn an_impossible_position_is_refused() {
    let positions = [(3, vec![3], 1), (3, vec![1, 1], 2), (3, vec![1], 2), (0, vec![0], 1), (2, vec![0, 1, 1], 3)];
    for (read, held, sizes) in positions {
        let mut buffer = ShuffleBuffer::new(of_samples(4), 0, 0, 0, 0);
        let position = BufferPosition { read, held };
        assert!(matches!(buffer.resume(&position, &vec![1; sizes]), Err(Error::State { .. })), "{position:?}");
        assert_eq!(buffer.position(), BufferPosition { read: 0, held: vec![] });
    }
}

proptest! {
    #[test]
    fn every_sample_occurs_once_also_after_a_resume(
        len in 0_u64..300, samples in 1_usize..80, bytes in prop::option::of(1_u64..200), stop in 0_usize..300,
        seed: u64, epoch: u64,
    ) {
        let size_of = |ordinal: u64| ordinal * 7 % 13;
        let bound = BufferBound::new(samples, bytes.unwrap_or(u64::MAX))?;
        let mut whole = ShuffleBuffer::new(bound, seed, epoch, 1, 2);
        let mut slots = Vec::new();
        let mut all = read(&mut whole, &mut slots, len, size_of, stop);
        let position = whole.position();
        let rest = read(&mut whole, &mut slots.clone(), len, size_of, usize::MAX);

        let mut resumed = ShuffleBuffer::new(bound, seed, epoch, 1, 2);
        let sizes: Vec<u64> = position.held.iter().map(|&ordinal| size_of(ordinal)).collect();
        resumed.resume(&position, &sizes)?;
        prop_assert_eq!(resumed.position(), position.clone());
        prop_assert_eq!(resumed.yielded(), all.len() as u64);
        prop_assert_eq!(&read(&mut resumed, &mut position.held.clone(), len, size_of, usize::MAX), &rest);

        all.extend(rest);
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..len));
    }
}
