//! Slices and vectors are datasets of items.

use super::ItemDataset;
use crate::{Error, Result};

/// Items are references into the slice.
impl<'a, T: Sync> ItemDataset for &'a [T] {
    type Item = &'a T;

    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn item(&self, index: usize) -> Result<&'a T> {
        self.get(index).ok_or(Error::IndexOutOfRange { index, len: <[T]>::len(self) })
    }
}

/// Items are clones of the elements.
impl<T: Clone + Send + Sync> ItemDataset for Vec<T> {
    type Item = T;

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn item(&self, index: usize) -> Result<T> {
        self.get(index).cloned().ok_or(Error::IndexOutOfRange { index, len: Vec::len(self) })
    }
}
