//! [`Ring`]: a queue of descriptors between two processes.

use std::sync::Arc;

use super::Segment;
use super::sync::{AtomicU64, Ordering, Words};

/// The words of a descriptor.
const WORDS: usize = 8;
/// Number of words between the two sides' counters: two cache lines, because processors fetch lines in pairs.
const APART: usize = 16;

/// A ring of 64-byte descriptors in a segment that two processes map: one pushes, the other pops.
///
/// A new, zeroed segment holds an empty ring. The callers decide what a descriptor means. The other process may have
/// written anything to its words, so check them before trusting them. If two threads push at once (or pop at once),
/// descriptors are lost, but nothing worse happens.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::internal::{Ring, Segment};
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
    /// Total number of descriptors popped (word 0), total number pushed (word `APART`), then the descriptors.
    words: Words<AtomicU64>,
    capacity: usize,
}

impl Ring {
    /// Returns the size in bytes of a ring of `capacity` descriptors.
    #[must_use]
    pub const fn bytes(capacity: usize) -> usize {
        (2 * APART + capacity * WORDS) * size_of::<u64>()
    }

    /// Returns the ring of `capacity` descriptors at byte `offset` of `segment`, keeping its current state. The process
    /// at the other end creates its own with the same arguments.
    ///
    /// # Panics
    /// If `capacity` is not a power of two, `offset` is not a multiple of 64, or the ring is not inside the segment and
    /// outside its arena.
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

    /// Returns the words of the descriptor with push number `number`.
    fn descriptor(&self, number: u64) -> impl Iterator<Item = &AtomicU64> {
        // A capacity is a power of two, so numbers may wrap; the remainder is in bounds for any number.
        let start = 2 * APART + (number % self.capacity as u64) as usize * WORDS;
        (start..start + WORDS).map(|word| &self.words[word])
    }

    /// Pushes `descriptor`; returns false if the ring is full. Earlier writes are visible to the process that pops it.
    #[must_use]
    pub fn push(&self, descriptor: [u64; WORDS]) -> bool {
        let pushed = self.pushed().load(Ordering::Relaxed);
        // Pairs with the release in `pop`: the words were read before they are overwritten.
        let popped = self.popped().load(Ordering::Acquire);
        // Invalid counters count as a full ring: a descriptor pushed now could never be popped.
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

    /// Returns the number of descriptors waiting to be popped, as seen from this end.
    #[must_use]
    pub fn len(&self) -> usize {
        let popped = self.popped().load(Ordering::Acquire);
        let waiting = self.pushed().load(Ordering::Acquire).wrapping_sub(popped);
        usize::try_from(waiting).ok().filter(|waiting| *waiting <= self.capacity).unwrap_or(0)
    }

    /// True if no descriptor is waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of descriptors that can wait.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties the ring, whatever its contents. Use it after the process at the other end has died, before another gets
    /// the ring.
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
    fn a_ring_is_first_in_first_out_and_bounded() {
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
    fn invalid_counters_count_as_empty() {
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

    /// Uses a ring shorter than the messages sent, so each slot is reused while both sides work.
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
