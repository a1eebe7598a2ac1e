//! [`MapRandomItems`]: the results of a closure for each item and a key.

use super::read_methods;
use crate::dataset::{ItemDataset, check_item_count};
use crate::{Error, Result};

/// The results of a random closure for each item of another dataset: returned by
/// [`ItemDatasetExt::map_random`](super::ItemDatasetExt::map_random).
#[derive(Debug, Clone)]
pub struct MapRandomItems<D, F> {
    dataset: D,
    map: F,
}

impl<D, F> MapRandomItems<D, F> {
    pub(super) fn new(dataset: D, map: F) -> Self {
        Self { dataset, map }
    }

    fn read<U>(&self, indices: &[usize], keys: Option<&[u64]>) -> Result<Vec<U>>
    where
        D: ItemDataset,
        F: Fn(D::Item, u64) -> Result<U>,
    {
        let Some(keys) = keys else { return Err(no_keys()) };
        let items = self.dataset.items_with_keys(indices, keys)?;
        check_item_count(items.len(), indices.len())?;
        let mut made = Vec::with_capacity(indices.len());
        for (item, &key) in items.into_iter().zip(keys) {
            made.push((self.map)(item, key)?);
        }
        Ok(made)
    }
}

fn no_keys() -> Error {
    let reason = "the items are random and need a key each; read them with items_with_keys, or with an ItemLoader that \
                  has a seed";
    Error::invalid("keys", reason)
}

impl<D, F, U> ItemDataset for MapRandomItems<D, F>
where
    D: ItemDataset,
    F: Fn(D::Item, u64) -> Result<U> + Send + Sync,
{
    type Item = U;

    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn item(&self, index: usize) -> Result<U> {
        match index < self.len() {
            true => Err(no_keys()),
            false => Err(Error::IndexOutOfRange { index, len: self.len() }),
        }
    }

    fn is_random(&self) -> bool {
        true
    }

    read_methods!();
}
