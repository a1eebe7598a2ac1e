//! [`ZipItems`]: two datasets side by side.

use super::ItemDataset;
use crate::{Error, Result};

/// Pairs of items of two datasets: [`ItemDataset::zip`].
///
/// # Example
/// ```
/// use sluicegate::ItemDataset;
/// let pairs = vec!["cat", "dog"].zip(vec![0, 1])?;
/// assert_eq!(pairs.get(1)?, ("dog", 1));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ZipItems<A, B> {
    first: A,
    second: B,
}

impl<A: ItemDataset, B: ItemDataset> ZipItems<A, B> {
    pub(super) fn new(first: A, second: B) -> Result<Self> {
        if first.len() != second.len() {
            let (first_len, other_len) = (first.len(), second.len());
            let (first, other) = ("the dataset".into(), "what it is zipped with".into());
            return Err(Error::LengthMismatch { first, first_len, other, other_len });
        }
        Ok(Self { first, second })
    }
}

impl<A: ItemDataset, B: ItemDataset> ItemDataset for ZipItems<A, B> {
    type Item = (A::Item, B::Item);

    fn len(&self) -> usize {
        self.first.len()
    }

    fn get(&self, index: usize) -> Result<Self::Item> {
        Ok((self.first.get(index)?, self.second.get(index)?))
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
        Ok(self.first.get_many(indices)?.into_iter().zip(self.second.get_many(indices)?).collect())
    }
}
