//! [`WindowItems`]: neighbouring items, sliding along.

use std::ops::Range;

use super::{ItemDataset, check_index, check_indices, check_positive, stretches};
use crate::Result;

/// Vectors of neighbouring items of another dataset: [`ItemDataset::window`]. Where windows overlap, what is in several of
/// them is read for each.
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let windows = (0..10).collect::<Vec<_>>().window(4, 3)?;
/// assert_eq!(windows.len(), 3);
/// assert_eq!(windows.get(2)?, [6, 7, 8, 9]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WindowItems<D> {
    dataset: D,
    size: usize,
    step: usize,
}

impl<D> WindowItems<D> {
    pub(super) fn new(dataset: D, size: usize, step: usize) -> Result<Self> {
        check_positive("size", size)?;
        check_positive("step", step)?;
        Ok(Self { dataset, size, step })
    }

    fn window(&self, index: usize) -> Range<usize> {
        let first = index * self.step;
        first..first + self.size
    }
}

impl<D: ItemDataset> ItemDataset for WindowItems<D> {
    type Item = Vec<D::Item>;

    fn len(&self) -> usize {
        self.dataset.len().checked_sub(self.size).map_or(0, |room| room / self.step + 1)
    }

    fn get(&self, index: usize) -> Result<Vec<D::Item>> {
        check_index(index, self.len())?;
        self.dataset.get_many(&self.window(index).collect::<Vec<_>>())
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<Vec<D::Item>>> {
        check_indices(indices, self.len())?;
        stretches(&self.dataset, indices, |index| self.window(index))
    }
}
