//! [`MapItems`]: what a closure makes of each item.

use super::{ItemDataset, collected};
use crate::Result;

/// The items that a closure makes of another dataset's: [`ItemDataset::map`].
///
/// # Example
/// ```
/// use sluicegate::{Error, ItemDataset};
///
/// let numbers = vec!["1", "2", "many"].map(|text: &str| text.parse::<i32>().map_err(|error| Error::User(error.into())));
/// assert_eq!(numbers.get_many(&[1, 0])?, [2, 1]);
/// assert!(matches!(numbers.get(2), Err(Error::User(_))));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MapItems<D, F> {
    dataset: D,
    map: F,
}

impl<D, F> MapItems<D, F> {
    pub(super) fn new(dataset: D, map: F) -> Self {
        Self { dataset, map }
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

    fn get(&self, index: usize) -> Result<U> {
        (self.map)(self.dataset.get(index)?)
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<U>> {
        collected(indices.len(), self.dataset.get_many(indices)?.into_iter().map(&self.map))
    }
}
