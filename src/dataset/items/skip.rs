//! [`SkipItems`]: all but the first items.

use super::{ItemDataset, check_index, check_indices};
use crate::Result;

/// All but the first items of another dataset: [`ItemDataset::skip`].
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let rest = vec!['a', 'b', 'c'].skip(2);
/// assert_eq!((rest.len(), rest.get(0)?), (1, 'c'));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SkipItems<D> {
    dataset: D,
    items: usize,
}

impl<D> SkipItems<D> {
    pub(super) fn new(dataset: D, items: usize) -> Self {
        Self { dataset, items }
    }
}

impl<D: ItemDataset> ItemDataset for SkipItems<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.dataset.len().saturating_sub(self.items)
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        check_index(index, self.len())?;
        self.dataset.get(index + self.items)
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        check_indices(indices, self.len())?;
        self.dataset.get_many(&indices.iter().map(|index| index + self.items).collect::<Vec<_>>())
    }
}
