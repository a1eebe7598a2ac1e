//! How samples become a batch: the trait [`Collate`], and the [`BatchLayout`] that it determines.

mod layout;
mod pack;
mod pad;
mod reused;
mod stack;

pub use layout::{BatchField, BatchLayout};
pub use pack::{PackRows, PackedLabels, PackedPieces};
pub use pad::{PadSamples, Padding};
pub use reused::{Reused, reuse_batches};
pub use stack::StackSamples;

use crate::{Result, Schema, Sizes};

/// Determines how the samples of a batch are arranged in its slot. Samples are then read straight into their rows.
///
/// # Contract
/// An implementation must be pure: the same schema and sizes give the same layout, on any thread.
pub trait Collate: Send + Sync {
    /// Returns the layout of a batch of samples of `schema` that have these `sizes`.
    ///
    /// # Errors
    /// If the batch cannot be laid out, for example because its size overflows.
    fn layout(&self, schema: &Schema, sizes: &Sizes) -> Result<BatchLayout>;
}
