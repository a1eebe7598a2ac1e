//! [`Ring`]: a queue of descriptors between two processes.

use std::sync::Arc;

use super::Segment;
use super::sync::{AtomicU64, Ordering, Words};

/// The words of a descriptor.
const WORDS: usize = 8;
/// Words between what the two sides write: two cache lines, because processors fetch lines in pairs.
const APART: usize = 16;

/// A ring of descriptors of 64 bytes, in a segment that two processes map: one pushes, the other pops.
///
/// A fresh segment, which is zero, holds an empty ring. What a descriptor means is the users' matter; its words are
/// whatever the other process has written, so they must be checked before they are believed. Two threads that push at once
/// (or pop at once) lose descriptors, and nothing worse.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::memory::{Ring, Segment};
/// let (segment, file) = Segment::shared(Ring::bytes(4)).unwrap();
/// let ring = Ring::new(Arc::new(segment), 0, 4);
///
/// // Another process maps the same file, and finds what this one pushes.
/// let elsewhere = Segment::map_shared(&file, Ring::bytes(4)).unwrap();
/// let other_end = Ring::new(Arc::new(elsewhere), 0, 4);
/// assert!(ring.push([7; 8]));
/// assert_eq!(other_end.pop(), Some([7; 8]));
/// assert_eq!(other_end.pop(), None);
/// ```
pub struct Ring {
    /// How many descriptors were popped ever (word 0), how many were pushed ever (word `APART`), then the descriptors.
    words: Words<AtomicU64>,
    capacity: usize,
}

impl Ring {
    /// The number of bytes that a ring of `capacity` descriptors takes.
    #[must_use]
    pub const fn bytes(capacity: usize) -> usize {
        (2 * APART + capacity * WORDS) * size_of::<u64>()
    }

    /// The ring of `capacity` descriptors at byte `offset` of `segment`, as it lies there. The process at the other end
    /// makes its own with the same numbers.
    ///
    /// # Panics
    /// When `capacity` is no power of two, `offset` no multiple of 64, or the ring is not inside the segment and outside
    /// of its arena.
    #[must_use]
    pub fn new(segment: Arc<Segment>, offset: usize, capacity: usize) -> Self {
        assert!(capacity.is_power_of_two(), "a ring of {capacity} descriptors: a power of two is needed");
        assert!(offset.is_multiple_of(64), "a ring at byte {offset}: a multiple of 64 is needed");
        Self { words: Words::new(segment, offset, 2 * APART + capacity * WORDS), capacity }
    }

    fn popped(&self) -> &AtomicU64 {
        &self.words[0]
    }

    fn pushed(&self) -> &AtomicU64 {
        &self.words[APART]
    }

    /// The words of the descriptor that was or will be pushed as number `number`.
    fn descriptor(&self, number: u64) -> impl Iterator<Item = &AtomicU64> {
        // A capacity is a power of two, so numbers may wrap; the remainder is inside whatever the number.
        let start = 2 * APART + (number % self.capacity as u64) as usize * WORDS;
        (start..start + WORDS).map(|word| &self.words[word])
    }

    /// Pushes `descriptor`; false when the ring is full. What was written before is visible to who pops it.
    #[must_use]
    pub fn push(&self, descriptor: [u64; WORDS]) -> bool {
        let pushed = self.pushed().load(Ordering::Relaxed);
        // Pairs with the release in `pop`: the words were read before they are overwritten.
        let popped = self.popped().load(Ordering::Acquire);
        // Numbers that make no sense count as a full ring: what would be pushed could never be popped.
        if pushed.wrapping_sub(popped) >= self.capacity as u64 {
            return false;
        }
        for (word, value) in self.descriptor(pushed).zip(descriptor) {
            word.store(value, Ordering::Relaxed);
        }
        self.pushed().store(pushed.wrapping_add(1), Ordering::Release);
        true
    }

    /// Pops the oldest descriptor, if there is one.
    #[must_use]
    pub fn pop(&self) -> Option<[u64; WORDS]> {
        let popped = self.popped().load(Ordering::Relaxed);
        // Pairs with the release in `push`.
        let pushed = self.pushed().load(Ordering::Acquire);
        let waiting = pushed.wrapping_sub(popped);
        if waiting == 0 || waiting > self.capacity as u64 {
            return None;
        }
        let mut descriptor = [0; WORDS];
        for (value, word) in descriptor.iter_mut().zip(self.descriptor(popped)) {
            *value = word.load(Ordering::Relaxed);
        }
        self.popped().store(popped.wrapping_add(1), Ordering::Release);
        Some(descriptor)
    }

    /// How many descriptors wait to be popped, as either end sees it.
    #[must_use]
    pub fn len(&self) -> usize {
        let popped = self.popped().load(Ordering::Acquire);
        let waiting = self.pushed().load(Ordering::Acquire).wrapping_sub(popped);
        usize::try_from(waiting).ok().filter(|waiting| *waiting <= self.capacity).unwrap_or(0)
    }

    /// Whether nothing waits to be popped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most descriptors that can wait.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties the ring, whatever is in it: for a ring whose other end has died, before another process gets it.
    pub fn reset(&self) {
        self.popped().store(0, Ordering::Release);
        self.pushed().store(0, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn ring(capacity: usize) -> Ring {
        Ring::new(Arc::new(Segment::shared(Ring::bytes(capacity)).unwrap().0), 0, capacity)
    }

    #[test]
    fn descriptors_come_out_in_order_and_a_full_ring_takes_no_more() {
        for capacity in [1, 2, 8] {
            let (ring, mut next) = (ring(capacity), 0);
            for round in 0..5 * capacity as u64 {
                let fits = (1 + round % capacity as u64).min(capacity as u64);
                (next..next + fits).for_each(|number| assert!(ring.push([number; 8])));
                assert_eq!((ring.len(), ring.is_empty()), (fits as usize, false));
                assert_eq!(ring.push([0; 8]), fits < capacity as u64);
                (next..next + fits).for_each(|number| assert_eq!(ring.pop(), Some([number; 8])));
                assert_eq!(ring.pop().is_some(), fits < capacity as u64);
                assert_eq!(ring.pop(), None);
                next += fits;
            }
        }
    }

    #[test]
    fn numbers_may_wrap() {
        let ring = ring(4);
        ring.popped().store(u64::MAX - 1, Ordering::Relaxed);
        ring.pushed().store(u64::MAX - 1, Ordering::Relaxed);
        (0..4).for_each(|number| assert!(ring.push([number; 8])));
        assert!(!ring.push([9; 8]));
        (0..4).for_each(|number| assert_eq!(ring.pop(), Some([number; 8])));
        assert_eq!((ring.pop(), ring.len()), (None, 0));
    }

    #[test]
    fn nonsense_counts_as_empty_and_takes_nothing() {
        let ring = ring(4);
        for (popped, pushed) in [(0, 5), (1, 0), (u64::MAX, 9), (7, u64::MAX), (1 << 63, 0), (0, 1 << 40)] {
            ring.popped().store(popped, Ordering::Relaxed);
            ring.pushed().store(pushed, Ordering::Relaxed);
            assert_eq!((ring.pop(), ring.len(), ring.push([1; 8])), (None, 0, false), "{popped} {pushed}");
            ring.reset();
            assert!(ring.push([2; 8]));
            assert_eq!((ring.pop(), ring.pop()), (Some([2; 8]), None));
        }
    }

    #[test]
    #[should_panic = "reach past the segment"]
    fn a_ring_must_fit() {
        let segment = Arc::new(Segment::shared(Ring::bytes(4)).unwrap().0);
        let _ = Ring::new(segment, 64, 4);
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use loom::thread;

    use super::super::sync::model_check;
    use super::*;

    /// A ring shorter than what goes through it, so that each slot is used again while both sides are at work.
    #[test]
    fn loom_what_is_popped_is_what_was_pushed() {
        model_check(|| {
            let ring = Arc::new(Ring::new(Arc::new(Segment::anonymous(Ring::bytes(2)).unwrap()), 0, 2));
            let producer = Arc::clone(&ring);
            let pushing = thread::spawn(move || {
                for number in 1..=3 {
                    while !producer.push([number; WORDS]) {
                        thread::yield_now();
                    }
                }
            });
            for number in 1..=3 {
                let descriptor = loop {
                    match ring.pop() {
                        Some(descriptor) => break descriptor,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(descriptor, [number; WORDS]);
            }
            assert!(ring.is_empty());
            pushing.join().unwrap();
        });
    }
}
