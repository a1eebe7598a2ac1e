//! [`Grant`]: the right to let another process write to a range of an arena.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::Lease;
use super::arena::{Arena, Pages};
use super::slot::{ALIGNMENT, capacity_for};

/// A range of the segment that one worker may write to until it has answered, and that nothing else reads or writes.
///
/// Dropping it, on any thread, returns the range to its [`Arena`]. Drop it only when the worker has answered or is
/// dead.
pub struct Grant {
    arena: Arc<Arena>,
    range: Range<usize>,
    /// How to treat its pages when they are returned.
    pages: Pages,
}

impl Arena {
    /// Returns a range of at least `bytes` bytes with unspecified contents, aligned to 64 bytes; a range of a page or
    /// more is aligned to pages. Returns None when there is no room, and in a forked child.
    #[must_use]
    pub fn grant(self: &Arc<Self>, bytes: usize) -> Option<Grant> {
        let range = self.take_warm(bytes)?;
        Some(Grant::new(Arc::clone(self), range, Pages::Warm))
    }

    /// Returns an untouched range of at least `bytes` bytes from the far end of the arena, for a batch that may be
    /// larger than any so far. The unused part costs nothing. Returns None when there is no room, and in a forked
    /// child.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Grant> {
        let page = rustix::param::page_size();
        let bytes = bytes.max(1).checked_next_multiple_of(page)?;
        let range = self.take_untouched(bytes)?;
        Some(Grant::new(Arc::clone(self), range, Pages::Discard))
    }
}

impl Grant {
    fn new(arena: Arc<Arena>, range: Range<usize>, pages: Pages) -> Self {
        Self { arena, range, pages }
    }

    /// Returns the granted bytes, as offsets in the segment.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Splits the grant into its first `bytes` bytes (rounded up to 64) and the rest, which may be empty.
    ///
    /// # Panics
    /// If it has fewer bytes.
    #[must_use]
    pub fn split_at(mut self, bytes: usize) -> (Self, Self) {
        assert!(bytes <= self.range.len(), "{bytes} of a grant of {} bytes", self.range.len());
        let rest = self.range.start + bytes.next_multiple_of(ALIGNMENT)..self.range.end;
        self.range.end = rest.start;
        let rest = Self { arena: Arc::clone(&self.arena), range: rest, pages: self.pages };
        (self, rest)
    }

    /// True if `bytes` bytes at `offset` can become a lease: they are inside the grant, and aligned. Check a worker's
    /// answer with this first.
    #[must_use]
    pub fn fits(&self, offset: usize, bytes: usize) -> bool {
        let end = offset.checked_add(bytes);
        offset.is_multiple_of(ALIGNMENT) && end.is_some_and(|end| end <= self.range.len())
    }

    /// Returns a lease on the `bytes` bytes that the worker has written at `offset` of the grant. If they fill less
    /// than half of it, the bytes before and after them return to the arena.
    ///
    /// # Panics
    /// If they do not [fit](Self::fits).
    #[must_use]
    pub fn into_lease(mut self, offset_in_grant: usize, bytes: usize) -> Lease {
        assert!(self.fits(offset_in_grant, bytes), "{bytes} bytes at {offset_in_grant} of {:?}", self.range);
        let granted = mem::take(&mut self.range);
        let start = granted.start + offset_in_grant;
        // Do not cut a slot that is mostly filled: the next grant would begin in the remainder and touch new pages,
        // until all slots have drifted apart.
        let whole = offset_in_grant == 0 && bytes >= granted.len() / 2;
        let len = if whole { granted.len() } else { capacity_for(bytes).min(granted.end - start) };
        let kept = start..start + len;
        Arena::lease(&self.arena, granted, kept, bytes, self.pages)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.arena.take_back(mem::take(&mut self.range), self.pages);
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Grant").field("range", &self.range).finish_non_exhaustive()
    }
}
