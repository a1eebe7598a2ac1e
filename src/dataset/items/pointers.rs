//! What points to a dataset is that dataset.

use std::sync::Arc;

use super::ItemDataset;
use crate::Result;

impl<D: ItemDataset + ?Sized> ItemDataset for &D {
    type Item = D::Item;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        (**self).get(index)
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        (**self).get_many(indices)
    }
}

impl<D: ItemDataset + ?Sized> ItemDataset for Box<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        (**self).get(index)
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        (**self).get_many(indices)
    }
}

impl<D: ItemDataset + ?Sized> ItemDataset for Arc<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn get(&self, index: usize) -> Result<D::Item> {
        (**self).get(index)
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        (**self).get_many(indices)
    }
}
