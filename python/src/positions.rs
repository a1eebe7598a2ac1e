//! [`Positions`]: the samples that indices of Python's stand for.

use sluicegate::Dataset;

/// The positions of the samples of a dataset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Positions {
    pub(super) len: usize,
    /// True if negative indices count from the end.
    from_end: bool,
}

impl Positions {
    /// Returns those of `len` samples whose negative indices count from the end.
    pub(super) fn new(len: usize) -> Self {
        Self { len, from_end: true }
    }

    pub(super) fn of(dataset: &dyn Dataset) -> Self {
        Self { len: dataset.len(), from_end: dataset.counts_from_end() }
    }

    /// Returns the position of the sample that `index` stands for, or None if there is none.
    pub(super) fn find(self, index: i64) -> Option<usize> {
        let counts = index < 0 && self.from_end;
        let place = if counts { index.checked_add(i64::try_from(self.len).ok()?)? } else { index };
        usize::try_from(place).ok().filter(|&place| place < self.len)
    }
}
