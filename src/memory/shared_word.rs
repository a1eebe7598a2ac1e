//! [`SharedWord`]: a number that two processes share.

use std::sync::Arc;

use super::Segment;
use super::sync::{AtomicU64, Ordering, Words};

/// A 64-bit number in shared memory that one process writes and another reads.
pub(crate) struct SharedWord(Words<AtomicU64>);

impl SharedWord {
    /// Size of a word in bytes.
    pub(crate) const BYTES: usize = size_of::<u64>();

    /// Returns the word at byte `offset` of `segment`, a multiple of 8.
    pub(crate) fn new(segment: &Arc<Segment>, offset: usize) -> Self {
        Self(Words::new(Arc::clone(segment), offset, 1))
    }

    /// Returns the number; everything that its writer wrote before is visible afterwards.
    pub(crate) fn load(&self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    /// Replaces the number.
    pub(crate) fn store(&self, value: u64) {
        self.0[0].store(value, Ordering::Release);
    }
}
