//! [`MapItems`]: the result of a closure for each item.

use super::{read, read_methods};
use crate::Result;
use crate::dataset::ItemDataset;

/// The results of a closure for each item of another dataset: returned by
/// [`ItemDatasetExt::map`](super::ItemDatasetExt::map).
#[derive(Debug, Clone)]
pub struct MapItems<D, F> {
    dataset: D,
    map: F,
}

impl<D, F> MapItems<D, F> {
    pub(super) fn new(dataset: D, map: F) -> Self {
        Self { dataset, map }
    }

    fn read<U>(&self, indices: &[usize], keys: Option<&[u64]>) -> Result<Vec<U>>
    where
        D: ItemDataset,
        F: Fn(D::Item) -> Result<U>,
    {
        let mut made = Vec::with_capacity(indices.len());
        for item in read(&self.dataset, indices, keys)? {
            made.push((self.map)(item)?);
        }
        Ok(made)
    }
}

impl<D, F, U> ItemDataset for MapItems<D, F>
where
    D: ItemDataset,
    F: Fn(D::Item) -> Result<U> + Send + Sync,
{
    type Item = U;

    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn item(&self, index: usize) -> Result<U> {
        (self.map)(self.dataset.item(index)?)
    }

    fn is_random(&self) -> bool {
        self.dataset.is_random()
    }

    read_methods!();
}
