//! HOW samples become a batch: the trait [`Collate`], and the [`BatchLayout`] that it decides.

mod stack;

pub use stack::StackSamples;

use crate::{Column, DType, Result, Schema};

/// Decides how the samples of a batch lie in its slot. Samples are then read straight into their rows.
///
/// # Contract
/// Pure: the same schema and number give the same layout, on any thread.
pub trait Collate: Send + Sync {
    /// The layout of a batch of `samples` samples of `schema`.
    ///
    /// # Errors
    /// The batch can't be laid out, for example because its size overflows.
    fn layout(&self, schema: &Schema, samples: usize) -> Result<BatchLayout>;
}

/// Where the fields of a batch lie in its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchLayout {
    /// The number of samples.
    pub samples: usize,
    /// The size of the slot, in bytes.
    pub bytes: usize,
    /// Where each field is written.
    pub columns: Vec<Column>,
    /// What each field is in the batch.
    pub fields: Vec<BatchField>,
}

/// One field of a batch: a dense array in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchField {
    /// The name of the field in the schema.
    pub name: String,
    /// The data type of the elements.
    pub dtype: DType,
    /// The shape, with the axis that counts the samples first.
    pub shape: Vec<usize>,
}
