//! [`Span`]: the samples that remain after `take` and `skip`.

use crate::dataset::Selection;

/// Consecutive samples.
pub(super) struct Span {
    start: usize,
    len: usize,
}

impl Span {
    /// Returns up to `len` of `all` samples, from `start` on.
    pub(super) fn new(all: usize, start: usize, len: usize) -> Self {
        let start = start.min(all);
        Self { start, len: len.min(all - start) }
    }
}

impl Selection for Span {
    fn len(&self) -> usize {
        self.len
    }

    fn index_at(&self, place: usize) -> usize {
        self.start + place
    }
}
