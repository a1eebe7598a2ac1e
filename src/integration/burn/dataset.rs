//! [`ToBurn`] and [`FromBurn`]: convert datasets of items to and from burn's.

use std::marker::PhantomData;

use burn_core::data::dataset::{Dataset, DatasetError};

use crate::{Error, ItemDataset};

/// An [`ItemDataset`] as a burn dataset. Feature `burn`.
///
/// Batched reads are forwarded. An error becomes a `DatasetError` whose `source()` is the [`Error`]; this includes an
/// index that is out of range, for which burn's own datasets panic.
///
/// # Example
/// ```
/// use burn_core::data::dataset::Dataset;
/// use burn_core::data::dataset::transform::PartialDataset;
/// use sluicegate::ToBurn;
///
/// let words = ToBurn(["the", "quick", "brown", "fox"].as_slice());
/// let last = PartialDataset::new(words, 2, 4);
/// assert_eq!((last.len(), *last.get(1)?), (2, "fox"));
/// # Ok::<(), burn_core::data::dataset::DatasetError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ToBurn<D>(pub D);

impl<D: ItemDataset> Dataset<D::Item> for ToBurn<D> {
    fn get(&self, index: usize) -> Result<D::Item, DatasetError> {
        self.0.item(index).map_err(DatasetError::new)
    }

    fn get_many(&self, indexes: Vec<usize>) -> Result<Vec<D::Item>, DatasetError> {
        self.0.items(&indexes).map_err(DatasetError::new)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A burn dataset as an [`ItemDataset`], for an [`ItemLoader`](crate::ItemLoader) and the adaptors: a dataset with
/// items `I` and errors `E`. Feature `burn`.
///
/// Batched reads are forwarded. Its errors become [`Error::User`], unchanged.
///
/// # Example
/// ```
/// use burn_core::data::dataset::InMemDataset;
/// use sluicegate::{FromBurn, ItemLoader};
///
/// let numbers = FromBurn::new(InMemDataset::new(vec![1, 2, 3]));
/// let loader = ItemLoader::builder(numbers, |items: Vec<i32>| Ok(items)).batch_size(2).build()?;
/// assert_eq!(loader.epoch(0)?.collect::<Result<Vec<_>, _>>()?, [vec![1, 2], vec![3]]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FromBurn<D, I, E = DatasetError> {
    dataset: D,
    items: PhantomData<fn() -> Result<I, E>>,
}

impl<D, I, E> FromBurn<D, I, E>
where
    D: Dataset<I, E>,
    E: std::error::Error + Send + Sync + 'static,
{
    /// Returns a dataset with the items of `dataset`.
    pub fn new(dataset: D) -> Self {
        Self { dataset, items: PhantomData }
    }

    fn check(&self, index: usize) -> crate::Result<()> {
        let len = self.dataset.len();
        // Without this check, burn's datasets would panic.
        if index < len { Ok(()) } else { Err(Error::IndexOutOfRange { index, len }) }
    }
}

impl<D, I, E> ItemDataset for FromBurn<D, I, E>
where
    D: Dataset<I, E>,
    E: std::error::Error + Send + Sync + 'static,
{
    type Item = I;

    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn item(&self, index: usize) -> crate::Result<I> {
        self.check(index)?;
        self.dataset.get(index).map_err(|error| Error::User(Box::new(error)))
    }

    fn items(&self, indices: &[usize]) -> crate::Result<Vec<I>> {
        indices.iter().try_for_each(|&index| self.check(index))?;
        self.dataset.get_many(indices.to_vec()).map_err(|error| Error::User(Box::new(error)))
    }
}
