//! [`SubsetItems`]: some of the items, in any order.

use std::sync::Arc;

use super::{read, read_methods};
use crate::dataset::{ItemDataset, Selection};
use crate::{Error, Result};

/// Items of another dataset at given indices; an item may occur more than once. It is the result of `take`, `skip`,
/// `shuffle`, `filter`, and `mix` of [`ItemDatasetExt`](super::ItemDatasetExt).
///
/// # Example
/// ```
/// use sluicegate::{ItemDataset, SubsetItems};
///
/// let subset = SubsetItems::new(vec!['a', 'b', 'c'], vec![2, 0, 2])?;
/// assert_eq!(subset.items(&[0, 1])?, ['c', 'a']);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone)]
pub struct SubsetItems<D> {
    dataset: D,
    selection: Arc<dyn Selection>,
}

impl<D: ItemDataset> SubsetItems<D> {
    /// Returns the items at `indices`, which take 8 bytes of memory each.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] if the dataset has no item at one of them.
    pub fn new(dataset: D, indices: Vec<usize>) -> Result<Self> {
        let len = dataset.len();
        match indices.iter().find(|&&index| index >= len) {
            Some(&index) => Err(Error::IndexOutOfRange { index, len }),
            None => Ok(Self::selected(dataset, indices)),
        }
    }

    /// Returns the items of `selection`, all of whose indices must be valid in `dataset`.
    pub(super) fn selected(dataset: D, selection: impl Selection + 'static) -> Self {
        Self { dataset, selection: Arc::new(selection) }
    }

    fn read(&self, indices: &[usize], keys: Option<&[u64]>) -> Result<Vec<D::Item>> {
        let mut inner = Vec::new();
        match self.selection.indices(indices, &mut inner) {
            Ok(()) => read(&self.dataset, &inner, keys),
            Err(index) => Err(Error::IndexOutOfRange { index, len: self.selection.len() }),
        }
    }
}

impl<D: ItemDataset> ItemDataset for SubsetItems<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.selection.len()
    }

    fn item(&self, index: usize) -> Result<D::Item> {
        match index < self.selection.len() {
            true => self.dataset.item(self.selection.index_at(index)),
            false => Err(Error::IndexOutOfRange { index, len: self.selection.len() }),
        }
    }

    fn is_random(&self) -> bool {
        self.dataset.is_random()
    }

    read_methods!();
}
