//! [`ZipItems`]: two datasets side by side.

use super::{read, read_methods};
use crate::dataset::{ItemDataset, check_item_count};
use crate::{Error, Result};

/// Pairs of items of two datasets: the result of [`ItemDatasetExt::zip`](super::ItemDatasetExt::zip).
#[derive(Debug, Clone)]
pub struct ZipItems<A, B> {
    first: A,
    second: B,
}

impl<A: ItemDataset, B: ItemDataset> ZipItems<A, B> {
    pub(super) fn new(first: A, second: B) -> Result<Self> {
        if first.len() != second.len() {
            let (first_len, other_len) = (first.len(), second.len());
            let (first, other) = ("the dataset".into(), "the dataset zipped with it".into());
            return Err(Error::LengthMismatch { first, first_len, other, other_len });
        }
        Ok(Self { first, second })
    }

    fn read(&self, indices: &[usize], keys: Option<&[u64]>) -> Result<Vec<(A::Item, B::Item)>> {
        let (first, second) = (read(&self.first, indices, keys)?, read(&self.second, indices, keys)?);
        check_item_count(first.len(), indices.len())?;
        check_item_count(second.len(), indices.len())?;
        Ok(first.into_iter().zip(second).collect())
    }
}

impl<A: ItemDataset, B: ItemDataset> ItemDataset for ZipItems<A, B> {
    type Item = (A::Item, B::Item);

    fn len(&self) -> usize {
        self.first.len()
    }

    fn item(&self, index: usize) -> Result<Self::Item> {
        Ok((self.first.item(index)?, self.second.item(index)?))
    }

    fn is_random(&self) -> bool {
        self.first.is_random() || self.second.is_random()
    }

    read_methods!();
}
