//! Slices and vectors are datasets.

use super::{ItemDataset, check_index};
use crate::Result;

/// Its items are references into it.
impl<'a, T: Sync> ItemDataset for &'a [T] {
    type Item = &'a T;

    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn get(&self, index: usize) -> Result<&'a T> {
        check_index(index, <[T]>::len(self))?;
        Ok(&self[index])
    }
}

/// Its items are clones of those in it.
impl<T: Clone + Send + Sync> ItemDataset for Vec<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn get(&self, index: usize) -> Result<T> {
        check_index(index, self.as_slice().len())?;
        Ok(self[index].clone())
    }
}
