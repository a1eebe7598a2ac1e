//! [`ShuffleItems`]: the items in a random sequence.

use super::{ItemDataset, check_index, check_indices};
use crate::{Permutation, Result};

/// The items of another dataset in one fixed random sequence: [`ItemDataset::shuffle`].
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let shuffled = (0..100).collect::<Vec<_>>().shuffle(7);
/// let mut items = (0..100).map(|index| shuffled.get(index)).collect::<Result<Vec<_>, _>>()?;
/// assert!(!items.is_sorted());
/// items.sort();
/// assert!(items.into_iter().eq(0..100));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ShuffleItems<D> {
    dataset: D,
    sequence: Permutation,
}

impl<D: ItemDataset> ShuffleItems<D> {
    pub(super) fn new(dataset: D, seed: u64) -> Self {
        let sequence = Permutation::new(dataset.len() as u64, seed, 0);
        Self { dataset, sequence }
    }

    fn index_at(&self, index: usize) -> usize {
        self.sequence.index_at(index as u64) as usize
    }
}

impl<D: ItemDataset> ItemDataset for ShuffleItems<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.sequence.len() as usize
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        check_index(index, self.len())?;
        self.dataset.get(self.index_at(index))
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        check_indices(indices, self.len())?;
        self.dataset.get_many(&indices.iter().map(|&index| self.index_at(index)).collect::<Vec<_>>())
    }
}
