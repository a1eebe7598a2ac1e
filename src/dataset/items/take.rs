//! [`TakeItems`]: the first items.

use super::{ItemDataset, check_index, check_indices};
use crate::Result;

/// The first items of another dataset: [`ItemDataset::take`].
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let first = vec!['a', 'b', 'c'].take(2);
/// assert_eq!((first.len(), first.get(1)?), (2, 'b'));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TakeItems<D> {
    dataset: D,
    items: usize,
}

impl<D> TakeItems<D> {
    pub(super) fn new(dataset: D, items: usize) -> Self {
        Self { dataset, items }
    }
}

impl<D: ItemDataset> ItemDataset for TakeItems<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.dataset.len().min(self.items)
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        check_index(index, self.len())?;
        self.dataset.get(index)
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        check_indices(indices, self.len())?;
        self.dataset.get_many(indices)
    }
}
