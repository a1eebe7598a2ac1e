//! [`ConcatItems`]: concatenated datasets.

use super::{read, read_methods};
use crate::dataset::{ItemDataset, check_item_count};
use crate::{Error, Result};

/// The items of several datasets, one dataset after another; parts may be empty.
/// [`ItemDatasetExt::mix`](super::ItemDatasetExt::mix) mixes such a concatenation. Pass parts of different types as
/// `Arc<dyn ItemDataset<Item = T>>`.
///
/// # Example
/// ```
/// use sluicegate::{ConcatItems, ItemDataset};
///
/// let both = ConcatItems::new(vec![vec!['a', 'b'], vec!['c']])?;
/// assert_eq!(both.items(&[2, 0])?, ['c', 'a']);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ConcatItems<D> {
    parts: Vec<D>,
    /// `ends[part]` is the number of items in the parts up to and including `part`; it never decreases.
    ends: Vec<usize>,
}

impl<D: ItemDataset> ConcatItems<D> {
    /// Returns the concatenation of `parts`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are too many items for an index.
    pub fn new(parts: Vec<D>) -> Result<Self> {
        let mut ends = Vec::with_capacity(parts.len());
        for part in &parts {
            let end = ends.last().copied().unwrap_or(0_usize).checked_add(part.len());
            ends.push(
                end.ok_or_else(|| Error::invalid("parts", "they have more items in total than an index can count"))?,
            );
        }
        Ok(Self { parts, ends })
    }

    /// Returns the part that contains item `index`, and the item's index in it.
    fn locate(&self, index: usize) -> Result<(usize, usize)> {
        let part = self.ends.partition_point(|&end| end <= index);
        match part == self.parts.len() {
            true => Err(Error::IndexOutOfRange { index, len: self.len() }),
            false => Ok((part, index - part.checked_sub(1).map_or(0, |before| self.ends[before]))),
        }
    }

    /// Reads from each part at most once, and only from parts with requested items.
    fn read(&self, indices: &[usize], keys: Option<&[u64]>) -> Result<Vec<D::Item>> {
        let places = indices.iter().map(|&index| self.locate(index)).collect::<Result<Vec<_>>>()?;
        let mut asked: Vec<(Vec<usize>, Vec<u64>)> = vec![Default::default(); self.parts.len()];
        for (row, &(part, index)) in places.iter().enumerate() {
            asked[part].0.push(index);
            asked[part].1.extend(keys.map(|keys| keys[row]));
        }
        let mut found = Vec::with_capacity(self.parts.len());
        for (part, (indices, part_keys)) in self.parts.iter().zip(&asked) {
            let items = match indices.is_empty() {
                true => Vec::new(),
                false => read(part, indices, keys.map(|_| part_keys.as_slice()))?,
            };
            check_item_count(items.len(), indices.len())?;
            found.push(items.into_iter());
        }
        Ok(places.iter().filter_map(|&(part, _)| found[part].next()).collect())
    }
}

impl<D: ItemDataset> ItemDataset for ConcatItems<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn item(&self, index: usize) -> Result<D::Item> {
        let (part, index) = self.locate(index)?;
        self.parts[part].item(index)
    }

    fn is_random(&self) -> bool {
        self.parts.iter().any(ItemDataset::is_random)
    }

    read_methods!();
}
