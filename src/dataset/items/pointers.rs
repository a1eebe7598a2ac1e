//! What points to a dataset is that dataset.

use std::sync::Arc;

use super::ItemDataset;
use crate::Result;

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<D: ItemDataset + ?Sized> ItemDataset for $pointer {
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
    )*};
}

forward!(&D, Box<D>, Arc<D>);
