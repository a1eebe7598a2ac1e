//! [`BytesAhead`]: a bound in bytes on the batches fetched ahead of a consumer, and a count of those that are ready.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::memory::container_bytes;

/// The default bound is the memory that the process may use, divided by this: the model, the dataset, and the batches
/// in use need memory too.
const PART_OF_MEMORY: usize = 4;

/// Limits how many batches may be in flight, in bytes, and always counts the bytes of those that are ready.
///
/// Batch sizes are learned from batches that have arrived. The largest so far counts, because keeping the bound matters
/// more than one extra batch, and a mean would be too small for half of the batches. As many batches are in flight as
/// fit into the bound, but always at least one: a batch that is larger than the bound passes alone. When a new largest
/// batch arrives, batches already in flight may exceed the bound by the difference.
///
/// All numbers are atomic, and no thread waits: counts across threads are accurate once the threads are idle.
///
/// # Example
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
/// use sluicegate::internal::BytesAhead;
///
/// let ahead = Arc::new(BytesAhead::new(NonZeroUsize::new(1000)));
/// let party = ahead.join();
/// assert_eq!(party.room(), 1, "the size of a batch is unknown");
/// ahead.learn(300);
/// assert_eq!(party.room(), 3);
/// let held = ahead.hold(200);
/// assert_eq!((ahead.batches(), ahead.bytes()), (1, 200));
/// drop(held);
/// assert_eq!((ahead.bytes(), ahead.high_water()), (0, 200));
/// ```
#[derive(Debug)]
pub struct BytesAhead {
    given: Option<NonZeroUsize>,
    /// Determined when it is first needed; never needed if nothing is fetched ahead.
    bound: OnceLock<usize>,
    /// 0 until a batch has arrived.
    largest: AtomicUsize,
    parties: AtomicUsize,
    batches: AtomicUsize,
    bytes: AtomicUsize,
    high_water: AtomicUsize,
}

impl BytesAhead {
    /// Returns a counter with this bound in bytes; None means a quarter of what the process [may use](container_bytes).
    ///
    /// Until the first batch has reported its size, one batch is in flight if a bound is given, and any number if none
    /// is.
    #[must_use]
    pub fn new(bound: Option<NonZeroUsize>) -> Self {
        Self {
            given: bound,
            bound: bound.map(NonZeroUsize::get).map_or_else(OnceLock::new, OnceLock::from),
            largest: AtomicUsize::new(0),
            parties: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            high_water: AtomicUsize::new(0),
        }
    }

    /// Returns the bound in effect.
    #[must_use]
    pub fn bound(&self) -> usize {
        *self.bound.get_or_init(|| (container_bytes() / PART_OF_MEMORY).max(1))
    }

    /// Records the size of a batch.
    pub fn learn(&self, bytes: usize) {
        self.largest.fetch_max(bytes.max(1), Ordering::Relaxed);
    }

    /// Registers one more consumer, which shares the bound with the others until it is dropped.
    #[must_use]
    pub fn join(self: &Arc<Self>) -> Party {
        self.parties.fetch_add(1, Ordering::Relaxed);
        Party(Arc::clone(self))
    }

    /// Counts a batch that is ready, until the consumer has taken it and the returned value is dropped.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.high_water.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
        Held { ahead: Arc::clone(self), bytes }
    }

    /// Returns the size of the largest batch so far; 0 before the first.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    /// Returns the number of batches that are ready and not taken.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of these batches.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the peak number of bytes.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }
}

/// A consumer that shares a [`BytesAhead`].
#[derive(Debug)]
pub struct Party(Arc<BytesAhead>);

impl Party {
    /// Returns how many batches this consumer may have in flight: its share of the bound, but at least one.
    #[must_use]
    pub fn room(&self) -> usize {
        let ahead = &self.0;
        match (ahead.largest(), ahead.given) {
            (0, Some(_)) => 1,
            (0, None) => usize::MAX,
            (largest, _) => (ahead.bound() / largest / ahead.parties.load(Ordering::Relaxed).max(1)).max(1),
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        self.0.parties.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A batch that is ready, as counted in a [`BytesAhead`].
#[derive(Debug)]
pub struct Held {
    ahead: Arc<BytesAhead>,
    bytes: usize,
}

impl Held {
    /// Returns the size of the batch.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ahead.batches.fetch_sub(1, Ordering::Relaxed);
        self.ahead.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
