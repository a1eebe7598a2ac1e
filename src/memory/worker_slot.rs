//! [`WorkerSlot`]: the memory to which a worker process writes one batch.

use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::Segment;
use super::slot::capacity_for;
use crate::{Error, Result};

/// Alignment of the parts of a batch, in bytes: the same as torch's own allocator uses.
const ALIGNMENT: usize = 64;
const PAGE: usize = 4096;

/// Returns how much of the spare room a batch of `bytes` bytes takes when `room` bytes are left: as much as a slot for
/// batches of this size, so that it can become one later. Worker and consumer must agree on it.
pub(crate) fn spare_for(bytes: usize, room: usize) -> usize {
    capacity_for(bytes).next_multiple_of(PAGE).min(room)
}

/// The part of a shared segment that the consumer granted to this worker for one batch, filled from its start.
///
/// A batch that exceeds its room moves, including the part already written, to the worker's spare room, which is larger
/// than any expected batch.
pub(crate) struct WorkerSlot {
    segment: Arc<Segment>,
    room: Range<usize>,
    spare: Range<usize>,
    used: usize,
    moved: bool,
}

impl WorkerSlot {
    /// Returns a slot in `room`, and in `spare` if `room` is too small: ranges of `segment` that no other code writes
    /// to.
    pub(crate) fn new(segment: &Arc<Segment>, room: Range<usize>, spare: Range<usize>) -> Self {
        for range in [&room, &spare] {
            assert!(range.start <= range.end && range.end <= segment.len(), "a slot lies in its segment");
            assert!(range.start.is_multiple_of(ALIGNMENT), "a slot is aligned");
        }
        Self { segment: Arc::clone(segment), room, spare, used: 0, moved: false }
    }

    /// Reserves `bytes` more bytes, and returns their offset from the start of the batch.
    ///
    /// # Errors
    /// [`Error::SlotTooSmall`] if the spare room is too small as well.
    pub(crate) fn place(&mut self, bytes: usize) -> Result<usize> {
        let place = self.used.next_multiple_of(ALIGNMENT);
        let end = place.checked_add(bytes).filter(|&end| isize::try_from(end).is_ok());
        let end = end.ok_or(Error::SlotTooSmall { bytes, room: self.spare.len() })?;
        if end > self.room.len() {
            if end > self.spare.len() {
                return Err(Error::SlotTooSmall { bytes: end, room: self.spare.len().max(self.room.len()) });
            }
            let (from, to) = (self.segment.at(self.room.start), self.segment.at(self.spare.start));
            // SAFETY: both ranges belong to this worker alone, hold `used` bytes, and do not overlap: the consumer
            // granted them as separate ranges.
            unsafe { from.copy_to_nonoverlapping(to, self.used) };
            self.room = std::mem::replace(&mut self.spare, 0..0);
            self.moved = true;
        }
        self.used = end;
        Ok(place)
    }

    /// Returns the `bytes` bytes at `place` for writing.
    pub(crate) fn bytes_mut(&mut self, place: usize, bytes: usize) -> &mut [u8] {
        let address = self.address(place, bytes);
        // SAFETY: placed, and therefore inside the room, which is mapped as long as the segment exists, and which was
        // granted to this worker alone until it answers; within the process the exclusive borrow excludes other access.
        unsafe { slice::from_raw_parts_mut(address.as_ptr(), bytes) }
    }

    /// Returns the address of the `bytes` bytes at `place`. It is valid until the next call of `place`, which may move
    /// them.
    pub(crate) fn address(&self, place: usize, bytes: usize) -> NonNull<u8> {
        assert!(place + bytes <= self.used, "only what was placed can be written");
        self.segment.at(self.room.start + place)
    }

    /// Discards what was written, so that a different answer can replace it.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Returns the range of the segment for the `bytes` bytes at `place`.
    pub(crate) fn range(&self, place: usize, bytes: usize) -> Range<usize> {
        self.room.start + place..self.room.start + place + bytes
    }

    /// Returns the used range of the segment, and the spare room that is left for later batches.
    pub(crate) fn finish(self) -> (Range<usize>, Range<usize>) {
        let end = self.room.start + self.used;
        let spare = if self.moved {
            self.room.start + spare_for(self.used, self.room.len())..self.room.end
        } else {
            self.spare
        };
        (self.room.start..end, spare)
    }
}
