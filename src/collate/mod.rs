//! HOW samples become a batch: the trait [`Collate`], and the [`BatchLayout`] that it decides.

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

/// Decides how the samples of a batch lie in its slot. Samples are then read straight into their rows.
///
/// # Contract
/// Pure: the same schema and sizes give the same layout, on any thread.
pub trait Collate: Send + Sync {
    /// The layout of a batch of samples of `schema` that have these `sizes`.
    ///
    /// # Errors
    /// The batch can't be laid out, for example because its size overflows.
    fn layout(&self, schema: &Schema, sizes: &Sizes) -> Result<BatchLayout>;
}
