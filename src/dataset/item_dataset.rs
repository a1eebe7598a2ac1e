//! The trait [`ItemDataset`]: samples that are values of any type, for those who want no fields.

use crate::{Error, Result};

/// Items of any type, by index: what an [`ItemLoader`](crate::ItemLoader) reads. Its adaptors are in
/// [`ItemDatasetExt`](crate::ItemDatasetExt).
///
/// A `&[T]` is one whose items are references into it, and a `Vec<T>` one whose items are clones; so are references, boxes and
/// `Arc`s of a dataset. Nothing is asked of the type of the items: they are made and collated on one thread. A dataset may
/// borrow from the stack.
///
/// # Contract
/// - All methods are called from many threads at once.
/// - They are deterministic: the same index, and where [`is_random`](Self::is_random) says so the same key, gives the same item.
/// - An index of `len()` or above is [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), never a panic.
///
/// # Example
/// ```
/// use sluicegate::{Error, ItemDataset, ItemDatasetExt, Result};
///
/// /// The squares of the numbers below this one.
/// struct Squares(usize);
///
/// impl ItemDataset for Squares {
///     type Item = usize;
///     fn len(&self) -> usize { self.0 }
///     fn item(&self, index: usize) -> Result<usize> {
///         if index < self.0 { Ok(index * index) } else { Err(Error::IndexOutOfRange { index, len: self.0 }) }
///     }
/// }
///
/// let texts = Squares(10).skip(2).map(|square| Ok(square.to_string()));
/// assert_eq!(texts.items(&[7, 0])?, ["81", "4"]);
/// assert!(texts.item(8).is_err());
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub trait ItemDataset: Send + Sync {
    /// What a sample is.
    type Item;

    /// The number of items.
    fn len(&self) -> usize;

    /// Item `index`.
    ///
    /// # Errors
    /// The index is out of range, or what lies underneath can't be read; an error of user code is
    /// [`Error::User`](crate::Error::User). Of a random dataset any item is an error: it has no key.
    fn item(&self, index: usize) -> Result<Self::Item>;

    /// The items at `indices`, in that sequence: for datasets that read many at once cheaper than one by one.
    ///
    /// # Errors
    /// As [`item`](Self::item), for any of the indices.
    fn items(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
        // Collecting into a `Result` does not know how many will come, and moves them as it grows.
        let mut items = Vec::with_capacity(indices.len());
        for &index in indices {
            items.push(self.item(index)?);
        }
        Ok(items)
    }

    /// True if there is no item at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if an item is not the same each time that it is read, but depends on a key. A combinator is what its parts
    /// are.
    fn is_random(&self) -> bool {
        false
    }

    /// As [`items`](Self::items), each with the key of the same place: what is random about it is drawn from that. A loader
    /// reads random datasets so, with keys that follow from its [`seed`](crate::ItemLoaderBuilder::seed), the epoch and the
    /// index ([`sample_key`](crate::sample_key)). A combinator hands the keys on.
    ///
    /// # Errors
    /// As [`items`](Self::items).
    fn items_with_keys(&self, indices: &[usize], _keys: &[u64]) -> Result<Vec<Self::Item>> {
        self.items(indices)
    }
}

/// Fails when a dataset has not given an item for each index: what was made of them would belong to others.
pub(crate) fn check_item_count(items: usize, indices: usize) -> Result<()> {
    if items == indices {
        return Ok(());
    }
    let reason = format!("its batched read gave {items} items for {indices} indices: it must give one for each");
    Err(Error::InvalidArgument { argument: "dataset", reason })
}
