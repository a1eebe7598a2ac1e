//! [`FetchItems`]: fetches the items of an [`ItemDataset`], and collates them by a closure.

use super::pool::catch;
use super::{Fetch, IndexBatch};
use crate::dataset::ItemDataset;
use crate::{Error, Result};

/// Fetches from an [`ItemDataset`]: a batch is what `collate` makes of its items.
pub(crate) struct FetchItems<D, C> {
    dataset: D,
    collate: C,
}

impl<D: ItemDataset, C> FetchItems<D, C> {
    pub(crate) fn new(dataset: D, collate: C) -> Self {
        Self { dataset, collate }
    }

    /// The error of items that could not be read because of a panic: which of them, if that happens again when each is read
    /// by itself.
    fn name_panic(&self, indices: &[usize], message: String) -> Error {
        for &index in indices {
            if let Err(Error::Panic { message, .. }) = catch(|| self.dataset.get(index).map(drop)) {
                return Error::Panic { index: Some(index), message };
            }
        }
        // It may have been the batched read, or chance.
        let first = indices.first().copied().unwrap_or_default();
        let message = format!("{message} (in get_many of {} samples, {first} the first)", indices.len());
        Error::Panic { index: None, message }
    }
}

impl<D, C, B> Fetch<B> for FetchItems<D, C>
where
    D: ItemDataset,
    C: Fn(Vec<D::Item>) -> Result<B> + Send + Sync,
{
    fn fetch(&self, batch: &IndexBatch) -> Result<B> {
        let indices = &batch.indices;
        let items = catch(|| self.dataset.get_many(indices)).map_err(|error| match error {
            Error::Panic { message, .. } => self.name_panic(indices, message),
            other => other,
        })?;
        if items.len() != indices.len() {
            let reason =
                format!("get_many gave {} items for {} indices: it must give one for each", items.len(), indices.len());
            return Err(Error::InvalidArgument { argument: "dataset", reason });
        }
        (self.collate)(items)
    }
}
