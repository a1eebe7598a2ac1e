//! [`FilterItems`]: some of the items.

use super::{ItemDataset, check_index, check_indices};
use crate::Result;

/// So many items are read at a time to find out which are kept.
const AT_A_TIME: usize = 256;

/// Those items of another dataset that were to be kept: [`ItemDataset::filter`].
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let even = (0..10).collect::<Vec<_>>().filter(|number| number % 2 == 0)?;
/// assert_eq!((even.len(), even.get(4)?), (5, 8));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FilterItems<D> {
    dataset: D,
    kept: Vec<usize>,
}

impl<D: ItemDataset> FilterItems<D> {
    pub(super) fn new(dataset: D, mut keep: impl FnMut(&D::Item) -> bool) -> Result<Self> {
        let (mut kept, mut indices) = (Vec::new(), Vec::with_capacity(AT_A_TIME));
        let len = dataset.len();
        for first in (0..len).step_by(AT_A_TIME) {
            indices.clear();
            indices.extend(first..len.min(first + AT_A_TIME));
            let items = dataset.get_many(&indices)?;
            kept.extend(indices.iter().zip(&items).filter(|(_, item)| keep(item)).map(|(&index, _)| index));
        }
        Ok(Self { dataset, kept })
    }
}

impl<D: ItemDataset> ItemDataset for FilterItems<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.kept.as_slice().len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        check_index(index, self.len())?;
        self.dataset.get(self.kept[index])
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        check_indices(indices, self.len())?;
        self.dataset.get_many(&indices.iter().map(|&index| self.kept[index]).collect::<Vec<_>>())
    }
}
