//! `take` and `skip`: consecutive samples.

use std::sync::Arc;

use crate::dataset::{Dataset, Selection, Subset};

struct Span {
    start: usize,
    len: usize,
}

impl Selection for Span {
    fn len(&self) -> usize {
        self.len
    }

    fn index_at(&self, place: usize) -> usize {
        self.start + place
    }
}

/// Up to `len` samples from `start` on.
pub(super) fn span(dataset: Arc<dyn Dataset>, start: usize, len: usize) -> Subset {
    let start = start.min(dataset.len());
    let len = len.min(dataset.len() - start);
    Subset::selected(dataset, Span { start, len })
}
