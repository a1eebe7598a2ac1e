//! [`BytesAhead`]: a bound in bytes on what is fetched ahead of a consumer, and what there is of it.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::memory::container_bytes;

/// The bound that nobody has given is this part of what the process may use: beside it there have to be the model, the
/// dataset and the batches in use.
const PART_OF_MEMORY: usize = 4;

/// How many batches may be under way, in bytes; and how many bytes of them are ready, which is counted in any case.
///
/// How large a batch is, is learned from those that came: the largest of all so far counts, since a bound that is
/// kept is worth more than one more batch ahead, and a mean is too little for half of them. So as many are under way as
/// fit into the bound, and one in any case: one that is larger than the bound passes, alone. A new largest one may exceed
/// the bound by what it is larger, for those that were under way already.
///
/// All numbers are atomic and nobody waits: what is counted on several threads is true when they rest.
///
/// # Example
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
/// use sluicegate::BytesAhead;
///
/// let ahead = Arc::new(BytesAhead::new(NonZeroUsize::new(1000)));
/// let party = ahead.join();
/// assert_eq!(party.room(), 1, "nobody knows how large a batch is");
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
    /// Found out when it is needed, which it is not where nothing is fetched ahead.
    bound: OnceLock<usize>,
    /// 0 while no batch has come.
    largest: AtomicUsize,
    parties: AtomicUsize,
    batches: AtomicUsize,
    bytes: AtomicUsize,
    high_water: AtomicUsize,
}

impl BytesAhead {
    /// With this bound in bytes; without one it is a quarter of what the process [may use](container_bytes).
    ///
    /// Until the first batch has told its size, one is under way where a bound is given, and any number where none is.
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

    /// The bound that is in force.
    #[must_use]
    pub fn bound(&self) -> usize {
        *self.bound.get_or_init(|| (container_bytes() / PART_OF_MEMORY).max(1))
    }

    /// Takes note of the size of a batch.
    pub fn learn(&self, bytes: usize) {
        self.largest.fetch_max(bytes.max(1), Ordering::Relaxed);
    }

    /// One more consumer, with whom the others share the bound until it is dropped.
    #[must_use]
    pub fn join(self: &Arc<Self>) -> Party {
        self.parties.fetch_add(1, Ordering::Relaxed);
        Party(Arc::clone(self))
    }

    /// Counts a batch that is ready, until the consumer has it and what is returned here is dropped.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.high_water.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
        Held { ahead: Arc::clone(self), bytes }
    }

    /// The size of the largest batch that was learned of; 0 before the first.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    /// The number of batches that are ready and that no consumer has taken.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.load(Ordering::Relaxed)
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that there ever were.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }
}

/// A consumer that takes part in a [`BytesAhead`].
#[derive(Debug)]
pub struct Party(Arc<BytesAhead>);

impl Party {
    /// How many batches this consumer may have under way: its part of the bound, and one in any case.
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

/// A batch that is ready, as it is counted in a [`BytesAhead`].
#[derive(Debug)]
pub struct Held {
    ahead: Arc<BytesAhead>,
    bytes: usize,
}

impl Held {
    /// The size of the batch.
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
