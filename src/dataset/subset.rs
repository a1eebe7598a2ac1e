//! [`Subset`]: some samples of a dataset, in a given order.

use std::sync::Arc;

use super::Dataset;
use super::forward_dataset::forward_dataset;
use super::selected::{Selected, Selection};
use crate::{Error, Result};

/// The samples of `dataset` at `indices`; an index may occur more than once.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Dataset, InMemory, Subset};
/// let dataset = Arc::new(InMemory::from_vec("x", vec![10_i64, 20, 30], []).unwrap());
/// assert_eq!(Subset::new(dataset, vec![2, 0]).unwrap().len(), 2);
/// ```
pub struct Subset(Selected<Arc<dyn Dataset>, Box<dyn Selection>>);

impl Subset {
    /// The subset at `indices`, which take 8 bytes of memory each.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] if the dataset has no sample at one of them.
    pub fn new(dataset: Arc<dyn Dataset>, indices: Vec<usize>) -> Result<Self> {
        let len = dataset.len();
        match indices.iter().find(|&&index| index >= len) {
            Some(&index) => Err(Error::IndexOutOfRange { index, len }),
            None => Ok(Self::selected(dataset, indices)),
        }
    }

    /// The subset that `selection` selects; its indices must all exist in `dataset`.
    pub(crate) fn selected(dataset: Arc<dyn Dataset>, selection: impl Selection + 'static) -> Self {
        Self(Selected { dataset, selection: Box::new(selection) })
    }

    /// The samples at `indices`, all of which must exist in `dataset`: the caller has checked them.
    #[doc(hidden)]
    pub fn checked(dataset: Arc<dyn Dataset>, indices: Vec<usize>) -> Self {
        Self::selected(dataset, indices)
    }
}

forward_dataset!([] Subset, self => self.0);
