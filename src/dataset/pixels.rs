//! [`Pixels`]: where the pixels of images come from.

use std::sync::Arc;

use super::{Blocks, Dataset};
use crate::memory::Array;
use crate::{Error, Result};

/// Images as bytes, all of the same shape.
pub enum Pixels {
    /// In memory, one per row.
    InMemory(Array),
    /// The samples of a dataset, whose only field has a fixed size.
    Stored(Arc<dyn Dataset>),
}

impl Pixels {
    /// Returns the number of images.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::InMemory(array) => array.len(),
            Self::Stored(dataset) => dataset.len(),
        }
    }

    /// Returns the size of an image in bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if samples are not one field of a fixed size.
    pub(super) fn bytes_per_image(&self) -> Result<usize> {
        match self {
            Self::InMemory(array) => Ok(array.bytes_per_row()),
            Self::Stored(dataset) => match dataset.schema().fields() {
                [field] if !field.is_variable() => Ok(field.bytes()),
                _ => {
                    let reason = format!("expected samples of one field of a fixed size, got {}", dataset.schema());
                    Err(Error::invalid("pixels", reason))
                }
            },
        }
    }

    /// The blocks that they are read in, if any.
    pub(super) fn as_blocks(&self) -> Option<&dyn Blocks> {
        match self {
            Self::InMemory(_) => None,
            Self::Stored(dataset) => dataset.as_blocks(),
        }
    }
}
