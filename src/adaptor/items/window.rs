//! [`WindowItems`]: sliding windows of neighboring items.

use std::ops::Range;

use super::{read, read_methods};
use crate::dataset::{ItemDataset, check_item_count};
use crate::rng::sample_key;
use crate::{Error, Result};

/// Vectors of neighboring items of another dataset: the result of
/// [`ItemDatasetExt::window`](super::ItemDatasetExt::window) and [`batch`](super::ItemDatasetExt::batch). Items in
/// overlapping windows are read once for each window.
#[derive(Debug, Clone)]
pub struct WindowItems<D> {
    dataset: D,
    /// Number of items in a window.
    items: usize,
    stride: usize,
}

impl<D: ItemDataset> WindowItems<D> {
    pub(super) fn new(dataset: D, items: usize, stride: usize) -> Self {
        Self { dataset, items, stride }
    }

    fn window(&self, index: usize) -> Result<Range<usize>> {
        let len = self.len();
        match index < len {
            true => Ok(index * self.stride..index * self.stride + self.items),
            false => Err(Error::IndexOutOfRange { index, len }),
        }
    }

    fn read(&self, indices: &[usize], keys: Option<&[u64]>) -> Result<Vec<Vec<D::Item>>> {
        // Check the indices before allocating: an invalid window could request any amount of memory.
        let windows = indices.iter().map(|&index| self.window(index)).collect::<Result<Vec<_>>>()?;
        let inner: Vec<usize> = windows.into_iter().flatten().collect();
        // Each item of a window has its own key, derived from the window's.
        let of_items = |&key: &u64| (0..self.items as u64).map(move |item| sample_key(key, 0, item));
        let keys: Option<Vec<u64>> = keys.map(|keys| keys.iter().flat_map(of_items).collect());
        let items = read(&self.dataset, &inner, keys.as_deref())?;
        check_item_count(items.len(), inner.len())?;
        let mut items = items.into_iter();
        Ok(indices.iter().map(|_| items.by_ref().take(self.items).collect()).collect())
    }
}

impl<D: ItemDataset> ItemDataset for WindowItems<D> {
    type Item = Vec<D::Item>;

    fn len(&self) -> usize {
        self.dataset.len().checked_sub(self.items).map_or(0, |last| last / self.stride + 1)
    }

    fn item(&self, index: usize) -> Result<Vec<D::Item>> {
        self.dataset.items(&self.window(index)?.collect::<Vec<_>>())
    }

    fn is_random(&self) -> bool {
        self.dataset.is_random()
    }

    read_methods!();
}
