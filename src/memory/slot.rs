//! [`Slot`]: the memory of one batch.

use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Segment;

/// Alignment of slots in bytes, the same as torch's allocator uses.
pub(super) const ALIGNMENT: usize = 64;

/// Returns the slot size that serves `bytes`. There are four sizes per power of two, so batches of similar size share
/// slots, and a slot (from 512 bytes on) is at most a quarter larger than its contents.
///
/// Impossibly large sizes are returned unchanged, and creating the segment then fails.
pub(super) fn capacity_for(bytes: usize) -> usize {
    let bytes = bytes.max(ALIGNMENT);
    let step = bytes.checked_next_power_of_two().map_or(ALIGNMENT, |power| power / 8).max(ALIGNMENT);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// The memory of one batch: a range of a segment that no other slot overlaps.
pub(super) struct Slot {
    segment: Arc<Segment>,
    range: Range<usize>,
}

impl Slot {
    /// Returns the slot at `range` of `segment`. The caller must have the exclusive right to that range.
    pub(super) fn new(segment: Arc<Segment>, range: Range<usize>) -> Self {
        Self { segment, range }
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    pub(super) fn address(&self) -> NonNull<u8> {
        self.segment.at(self.range.start)
    }

    pub(super) fn capacity(&self) -> usize {
        self.range.len()
    }

    /// Returns the owner of the memory, if the memory is foreign.
    pub(super) fn owner(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.segment.owner()
    }
}
