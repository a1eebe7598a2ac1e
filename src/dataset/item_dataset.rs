//! The trait [`ItemDataset`]: samples that are values of any type, without fields.

use crate::{Error, Result};

/// Items of any type, by index, as an [`ItemLoader`](crate::ItemLoader) reads them. Its adaptors are in
/// [`ItemDatasetExt`](crate::ItemDatasetExt).
///
/// A `&[T]` is an `ItemDataset` whose items are references, a `Vec<T>` one whose items are clones; so are references,
/// boxes and `Arc`s of a dataset. The item type needs no traits: items are made and collated on the same thread. A
/// dataset may borrow from the stack.
///
/// # Contract
/// - All methods are called from many threads at once.
/// - They are deterministic: the same index (and the same key, if [`is_random`](Self::is_random)) gives the same item.
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
    /// The type of a sample.
    type Item;

    /// The number of items.
    fn len(&self) -> usize;

    /// Item `index`.
    ///
    /// # Errors
    /// The index is out of range, or the underlying data can't be read; an error of user code is
    /// [`Error::User`](crate::Error::User). A random dataset fails for every item, because there is no key.
    fn item(&self, index: usize) -> Result<Self::Item>;

    /// The items at `indices`, in that order: for datasets that read many at once more cheaply than one by one.
    ///
    /// # Errors
    /// As [`item`](Self::item), for any of the indices.
    fn items(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
        // Not `collect`: into a `Result` it can't reserve space for all items, and moves them as it grows.
        let mut items = Vec::with_capacity(indices.len());
        for &index in indices {
            items.push(self.item(index)?);
        }
        Ok(items)
    }

    /// True if there are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if an item depends on a key, and is not the same each time it is read. A combinator is random if its parts
    /// are.
    fn is_random(&self) -> bool {
        false
    }

    /// As [`items`](Self::items), with a key for each item, from which its randomness is drawn. A loader reads random
    /// datasets this way, with keys derived from its [`seed`](crate::ItemLoaderBuilder::seed), the epoch and the index
    /// ([`sample_key`](crate::sample_key)). A combinator passes the keys on.
    ///
    /// # Errors
    /// As [`items`](Self::items).
    fn items_with_keys(&self, indices: &[usize], _keys: &[u64]) -> Result<Vec<Self::Item>> {
        self.items(indices)
    }
}

/// Fails unless a dataset has returned an item for each index: items would otherwise be matched to the wrong indices.
pub(crate) fn check_item_count(items: usize, indices: usize) -> Result<()> {
    if items == indices {
        return Ok(());
    }
    let reason = format!("its batched read returned {items} items for {indices} indices; it must return one for each");
    Err(Error::invalid("dataset", reason))
}
