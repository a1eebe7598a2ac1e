//! WHAT can be read: the traits [`Dataset`], with its extensions [`ReadMany`], [`VariableSize`], [`Drawing`] and
//! [`Blocks`]; [`IterableDataset`]; and [`ItemDataset`] for values without fields; and combinators, one per file.

mod blocks;
mod concat;
#[cfg(feature = "image")]
mod decoded_images;
mod drawing;
#[cfg(feature = "image")]
mod encoded_batch;
#[cfg(feature = "image")]
mod fake_images;
#[cfg(feature = "image")]
mod file_images;
#[cfg(feature = "image")]
mod file_mode;
pub(crate) mod format;
mod forward;
pub(crate) mod forward_dataset;
#[cfg(any(feature = "image", feature = "zarr"))]
pub(crate) mod helpers;
mod in_memory;
mod item_dataset;
mod iterable;
#[cfg(feature = "image")]
mod pixel_images;
#[cfg(feature = "image")]
mod pixels;
mod ragged;
#[cfg(feature = "image")]
mod room_filling;
mod sample_generator;
pub(crate) mod selected;
mod slices;
mod stack;
mod stop_signal;
mod stream_part;
mod subset;

pub use blocks::{BlockSize, Blocks};
pub use concat::Concat;
#[cfg(feature = "image")]
pub use decoded_images::{DecodedField, DecodedImages};
pub use drawing::Drawing;
#[cfg(feature = "image")]
pub use fake_images::FakeImages;
#[cfg(feature = "image")]
pub use file_images::{FileImages, OtherImages};
#[cfg(feature = "image")]
pub use file_mode::FileMode;
pub(crate) use forward::shared;
#[cfg(any(feature = "image", feature = "zarr"))]
pub use helpers::with_helpers;
pub use in_memory::InMemory;
pub use item_dataset::ItemDataset;
pub(crate) use item_dataset::check_item_count;
pub use iterable::{Advance, IterableDataset, SampleStream, StreamPosition};
#[cfg(feature = "image")]
pub use pixel_images::PixelImages;
#[cfg(feature = "image")]
pub use pixels::Pixels;
pub use ragged::Ragged;
pub(crate) use selected::Selection;
pub use stack::Stack;
pub use stop_signal::StopSignal;
pub use stream_part::{ConsumedSamples, StreamPart, StreamSplit};
pub use subset::Subset;

use crate::{BatchWriter, Error, Result, SampleWriter, Schema, Sizes, SizesWriter};

/// Samples by index.
///
/// # Contract
/// - `read` is called from many threads at once and takes no lock that a reader of another index can hold for long.
/// - It is deterministic: the same index (and the same key, if [`is_random`](Self::is_random)) gives the same bytes
///   until the underlying data changes.
/// - It fills every field of `into`, whose buffers may hold the bytes of an older batch.
/// - An index of `len()` or above is [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), never a panic.
///
/// An `Arc`, a `Box` and a reference of a dataset are datasets too, with the same capabilities.
///
/// # Example
/// ```
/// use sluicegate::{DType, Dataset, Field, Result, SampleWriter, Schema};
///
/// /// The squares of the numbers below 10^9: a dataset that is not stored anywhere.
/// struct Squares(Schema);
///
/// impl Dataset for Squares {
///     fn len(&self) -> usize { 1_000_000_000 }
///     fn schema(&self) -> &Schema { &self.0 }
///     fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
///         into.field(0).copy_from_slice(&(index as i64 * index as i64).to_ne_bytes());
///         Ok(())
///     }
/// }
/// # let squares = Squares(Schema::new([Field::new("square", DType::Int64, [])]));
/// # assert_eq!(squares.len(), 1_000_000_000);
/// ```
pub trait Dataset: Send + Sync {
    /// The number of samples.
    fn len(&self) -> usize;

    /// The fields of every sample.
    fn schema(&self) -> &Schema;

    /// Reads sample `index` into `into`.
    ///
    /// # Errors
    /// The index is out of range, or the underlying data can't be read.
    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()>;

    /// True if there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batched extension, if this dataset has one. A combinator has it if all of its parts do.
    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        None
    }

    /// The blocks that contain the samples, if there are any. A combinator has those of its parts.
    fn as_blocks(&self) -> Option<&dyn Blocks> {
        None
    }

    /// The sizes of the samples, if the schema has variable fields; not called otherwise.
    fn as_variable(&self) -> Option<&dyn VariableSize> {
        None
    }

    /// True if a sample depends on its key ([`SampleWriter::key`](crate::SampleWriter::key)), and is not the same each
    /// time it is read. A combinator is random if its parts are.
    fn is_random(&self) -> bool {
        false
    }

    /// The draws of random samples, if they can be made one after the other from a single generator without reading the
    /// samples. A combinator has them if all of its random parts do.
    #[doc(hidden)]
    fn as_drawing(&self) -> Option<&dyn Drawing> {
        None
    }

    /// False if -1 is not the last sample of the Python dataset that this one stands in for.
    #[doc(hidden)]
    fn counts_from_end(&self) -> bool {
        true
    }

    /// Describes where field `field` of sample `index` comes from: the file, and the position in it. Used in errors
    /// about invalid bytes, such as a string that is not UTF-8. `None` if unknown. A combinator asks the part that has
    /// the field.
    fn origin(&self, _index: usize, _field: usize) -> Option<String> {
        None
    }
}

/// Reads the samples of a batch at once, for datasets where that is cheaper than one by one.
pub trait ReadMany {
    /// Reads sample `indices[row]` into row `row` of `into`.
    ///
    /// # Errors
    /// As [`Dataset::read`], for any of the indices; rows may then be partly written.
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()>;
}

/// Reports the sizes of samples before they are read: they determine the layout of a slot.
///
/// # Contract
/// As that of [`Dataset`]; `read` must then write exactly the reported sizes.
pub trait VariableSize {
    /// Writes the number of elements of each variable field of sample `indices[row]` to row `row` of `into`.
    ///
    /// # Errors
    /// As [`Dataset::read`], for any of the indices.
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()>;
}

/// Returns the sizes of a batch of a dataset with variable fields.
pub(crate) fn sizes_of(dataset: &dyn Dataset, indices: &[usize]) -> Result<Sizes> {
    let mut sizes = Sizes::new(dataset.schema(), indices.len());
    write_sizes(dataset, indices, &mut sizes.writer())?;
    Ok(sizes)
}

/// Writes the sizes of a batch, if `dataset` has variable fields.
pub(crate) fn write_sizes(dataset: &dyn Dataset, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
    match dataset.as_variable() {
        Some(variable) => variable.sizes(indices, into),
        None if !dataset.schema().is_variable() => Ok(()),
        None => Err(Error::invalid(
            "dataset",
            format!("samples of {} differ in size, so the dataset must implement as_variable", dataset.schema()),
        )),
    }
}

/// Reads a batch in one call if `dataset` can, and sample by sample otherwise.
pub(crate) fn read_batch(dataset: &dyn Dataset, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
    if let Some(dataset) = dataset.as_read_many() {
        return dataset.read_many(indices, into);
    }
    indices.iter().enumerate().try_for_each(|(row, &index)| dataset.read(index, &mut into.sample(row)))
}
