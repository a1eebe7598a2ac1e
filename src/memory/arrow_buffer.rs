//! Segments as Arrow's buffers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_buffer::Buffer;

use super::segment::Backing;
use super::{Segment, fault};

impl Segment {
    /// All bytes as a buffer of Arrow's, which keeps the segment: nothing is copied.
    ///
    /// Of a mapped file it is to be read within [`read_by`](Self::read_by), and what was found in it once is to be looked at
    /// anew by whoever relies on it: somebody else may have written to the file since.
    pub(crate) fn arrow_buffer(self: &Arc<Self>) -> Buffer {
        // A segment has no state that a panic could leave half changed.
        let owner = Arc::new(AssertUnwindSafe(Arc::clone(self)));
        // SAFETY: these are the bytes of the segment, which the owner keeps mapped; a buffer that is made of foreign memory is
        // only read.
        unsafe { Buffer::from_custom_allocation(self.at(0), self.len(), owner) }
    }

    /// Runs `copy`, which reads bytes of these segments and writes elsewhere, as [`read_by`](Self::read_by) does for one. When
    /// pages of one are lost, all of them are taken to have lost some.
    pub(crate) fn read_all_by<'a>(segments: impl Iterator<Item = &'a Self> + Clone, copy: impl FnOnce()) {
        let files = segments.filter_map(|segment| match segment.backing() {
            Backing::File { lost_pages, .. } => Some((segment.addresses(), lost_pages)),
            _ => None,
        });
        let start = files.clone().map(|(addresses, _)| addresses.start).min();
        let end = files.clone().map(|(addresses, _)| addresses.end).max();
        // What lies between them is not read by `copy`.
        if let Some((start, end)) = start.zip(end) {
            if !fault::guarded(start..end, copy) {
                files.for_each(|(_, lost_pages)| lost_pages.store(true, Ordering::Relaxed));
            }
        } else {
            copy();
        }
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
}
