//! [`FetchItems`]: fetches the items of an [`ItemDataset`], and collates them with a closure.

use super::{Fetch, IndexBatch};
use crate::dataset::{ItemDataset, check_item_count};
use crate::error::catch;
use crate::rng::sample_key;
use crate::{Error, Result};

/// Fetches from an [`ItemDataset`]: a batch is the result of `collate` for its items.
pub(crate) struct FetchItems<D, C> {
    dataset: D,
    collate: C,
    /// For random items: the seed that keys are derived from, together with the epoch and the index.
    seed: Option<u64>,
    /// The index of the first item when keys are derived.
    first_index: usize,
}

impl<D: ItemDataset, C> FetchItems<D, C> {
    pub(crate) fn new(dataset: D, collate: C, seed: Option<u64>, first_index: usize) -> Self {
        let seed = seed.filter(|_| dataset.is_random());
        Self { dataset, collate, seed, first_index }
    }

    fn read(&self, epoch: u64, indices: &[usize]) -> Result<Vec<D::Item>> {
        match self.seed {
            None => self.dataset.items(indices),
            Some(seed) => {
                let key = |&index: &usize| sample_key(seed, epoch, (self.first_index + index) as u64);
                self.dataset.items_with_keys(indices, &indices.iter().map(key).collect::<Vec<_>>())
            }
        }
    }

    fn read_alone(&self, epoch: u64, index: usize) -> Result<()> {
        match self.seed {
            None => self.dataset.item(index).map(drop),
            Some(_) => self.read(epoch, &[index]).map(drop),
        }
    }

    /// Returns the error for items that could not be read because of a panic. It names the item if the panic recurs
    /// when each item is read alone.
    fn name_panic(&self, epoch: u64, indices: &[usize], message: String) -> Error {
        for &index in indices {
            if let Err(Error::Panic { message, .. }) = catch(|| self.read_alone(epoch, index)) {
                return Error::Panic { index: Some(index), message };
            }
        }
        // The panic came from the batched read, or does not recur.
        let first = indices.first().copied().unwrap_or_default();
        let message = format!("{message} (in a read of {} items, {first} the first)", indices.len());
        Error::Panic { index: None, message }
    }
}

impl<D, C, B> Fetch<B> for FetchItems<D, C>
where
    D: ItemDataset,
    C: Fn(Vec<D::Item>) -> Result<B> + Send + Sync,
{
    fn fetch(&self, batch: &IndexBatch) -> Result<B> {
        let IndexBatch { epoch, indices, .. } = batch;
        let items = catch(|| self.read(*epoch, indices)).map_err(|error| match error {
            Error::Panic { message, .. } => self.name_panic(*epoch, indices, message),
            other => other,
        })?;
        check_item_count(items.len(), indices.len())?;
        (self.collate)(items)
    }
}
