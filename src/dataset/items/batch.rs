//! [`BatchItems`]: neighbouring items together.

use std::ops::Range;

use super::{ItemDataset, check_index, check_indices, check_positive, stretches};
use crate::Result;

/// Vectors of neighbouring items of another dataset: [`ItemDataset::batch`]. For what belongs together however it is shuffled; a
/// loader makes its batches itself.
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let pairs = vec!['a', 'b', 'c'].batch(2)?;
/// assert_eq!(pairs.get_many(&[1, 0])?, [vec!['c'], vec!['a', 'b']]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BatchItems<D> {
    dataset: D,
    size: usize,
}

impl<D: ItemDataset> BatchItems<D> {
    pub(super) fn new(dataset: D, size: usize) -> Result<Self> {
        check_positive("size", size)?;
        Ok(Self { dataset, size })
    }

    fn stretch(&self, index: usize) -> Range<usize> {
        let first = index * self.size;
        first..first.saturating_add(self.size).min(self.dataset.len())
    }
}

impl<D: ItemDataset> ItemDataset for BatchItems<D> {
    type Item = Vec<D::Item>;

    fn len(&self) -> usize {
        self.dataset.len().div_ceil(self.size)
    }

    fn get(&self, index: usize) -> Result<Vec<D::Item>> {
        check_index(index, self.len())?;
        self.dataset.get_many(&self.stretch(index).collect::<Vec<_>>())
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<Vec<D::Item>>> {
        check_indices(indices, self.len())?;
        stretches(&self.dataset, indices, |index| self.stretch(index))
    }
}
