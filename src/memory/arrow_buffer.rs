//! Segments and slots as Arrow buffers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_buffer::Buffer;

use super::segment::Backing;
use super::{Lease, Segment, fault};

impl Segment {
    /// Returns all bytes as an Arrow buffer, which keeps the segment alive: nothing is copied.
    ///
    /// A mapped file must be read within [`read_by`](Self::read_by). Code that relies on earlier contents must check
    /// them again, because another process may have written to the file since.
    pub(crate) fn arrow_buffer(self: &Arc<Self>) -> Buffer {
        // A segment has no state that a panic could leave half changed.
        let owner = Arc::new(AssertUnwindSafe(Arc::clone(self)));
        // SAFETY: these are the bytes of the segment, which the owner keeps mapped; a buffer made from foreign memory
        // is only read.
        unsafe { Buffer::from_custom_allocation(self.at(0), self.len(), owner) }
    }

    /// Runs `copy`, which reads bytes of these segments and writes elsewhere, as [`read_by`](Self::read_by) does for
    /// one. If one segment loses pages, all of them are treated as having lost some.
    pub(crate) fn read_all_by<'a>(segments: impl Iterator<Item = &'a Self> + Clone, copy: impl FnOnce()) {
        let files = segments.filter_map(|segment| match segment.backing() {
            Backing::File { lost_pages, .. } => Some((segment.addresses(), lost_pages)),
            _ => None,
        });
        let start = files.clone().map(|(addresses, _)| addresses.start).min();
        let end = files.clone().map(|(addresses, _)| addresses.end).max();
        // `copy` does not read the gaps between the segments.
        if let Some((start, end)) = start.zip(end) {
            if !fault::guarded(start..end, copy) {
                files.for_each(|(_, lost_pages)| lost_pages.store(true, Ordering::Relaxed));
            }
        } else {
            copy();
        }
    }
}

impl Lease {
    /// Returns all bytes of the slot as an Arrow buffer, which holds the lease: nothing is copied, and the slot is
    /// returned when the last array over it is dropped.
    pub(crate) fn into_arrow_buffer(self) -> Buffer {
        let (address, bytes) = (self.address(), self.len());
        // A lease has no state that a panic could leave half changed.
        let owner = Arc::new(AssertUnwindSafe(self));
        // SAFETY: the owner holds the lease, the only right to these bytes, which are initialized and do not move; the
        // lease cannot be reached through the buffer, and a buffer made from foreign memory is only read.
        unsafe { Buffer::from_custom_allocation(address, bytes, owner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_its_segment() {
        let segment = Arc::new(Segment::from_vec((0..100_u8).collect()));
        let part = segment.arrow_buffer().slice_with_length(90, 5);
        drop(segment);
        assert_eq!(part.as_slice(), [90, 91, 92, 93, 94]);
        assert!(Arc::new(Segment::from_vec(Vec::<u8>::new())).arrow_buffer().is_empty());
    }

    #[test]
    fn a_slot_is_released_with_the_last_part_of_its_buffer() {
        let slab = super::super::Slab::new(1);
        let mut lease = slab.lease(64).expect("there is memory");
        lease.bytes_mut().fill(7);
        let address = lease.address();
        let buffer = lease.into_arrow_buffer();
        let part = buffer.slice_with_length(60, 4);
        drop(buffer);
        let other = slab.lease(64).expect("there is memory");
        assert_ne!(other.address(), address, "the part holds the slot");
        assert_eq!(part.as_slice(), [7; 4]);
        drop((other, part));
        let again: Vec<Lease> = (0..2).map(|_| slab.lease(64).expect("there is memory")).collect();
        assert!(again.iter().any(|lease| lease.address() == address), "nothing holds it any more");
    }
}
