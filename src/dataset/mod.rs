//! WHAT can be read: the traits [`Dataset`], with its extensions [`ReadMany`], [`VariableSize`], [`Drawing`]
//! and [`Blocks`],
//! [`IterableDataset`], and [`ItemDataset`] for values that have no fields; and combinators, one a file.

mod blocks;
mod concat;
#[cfg(feature = "image")]
mod decoded_images;
mod drawing;
#[cfg(feature = "image")]
mod encoded_batch;
#[cfg(feature = "image")]
mod file_images;
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
mod ragged;
#[cfg(feature = "image")]
mod room_filling;
#[cfg(feature = "image")]
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
pub use file_images::{FileImages, OtherImages};
pub(crate) use forward::shared;
#[cfg(any(feature = "image", feature = "zarr"))]
pub use helpers::with_helpers;
pub use in_memory::InMemory;
pub use item_dataset::ItemDataset;
pub(crate) use item_dataset::check_item_count;
pub use iterable::{Advance, IterableDataset, SampleStream, StreamPosition};
#[cfg(feature = "image")]
pub use pixel_images::PixelImages;
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
/// - It is deterministic: the same index, and where [`is_random`](Self::is_random) says so the same key, gives the same bytes
///   until the data underneath changes.
/// - It fills every field of `into`; the room may hold the bytes of an older batch.
/// - An index of `len()` or above is [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), never a panic.
///
/// An `Arc`, a `Box` and a reference of a dataset are datasets too, and can all that it can.
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

    /// Reads sample `index` into its room.
    ///
    /// # Errors
    /// The index is out of range, or what lies underneath can't be read.
    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()>;

    /// True if there is no sample at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batched extension, where this dataset has one. A combinator has it when its parts have.
    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        None
    }

    /// The blocks that the samples lie in, where there are such. A combinator has those of its parts.
    fn as_blocks(&self) -> Option<&dyn Blocks> {
        None
    }

    /// The sizes of the samples, where the schema has variable fields; never asked for otherwise.
    fn as_variable(&self) -> Option<&dyn VariableSize> {
        None
    }

    /// True if a sample is not the same each time that it is read, but depends on its key
    /// ([`SampleWriter::key`](crate::SampleWriter::key)). A combinator is what its parts are.
    fn is_random(&self) -> bool {
        false
    }

    /// The draws of random samples, where they can be made one after the other from one generator without reading the
    /// samples. A combinator has them when all of its random parts have.
    fn as_drawing(&self) -> Option<&dyn Drawing> {
        None
    }

    /// Where field `field` of sample `index` comes from, in words: the file, and the place in it. It is asked for by who finds
    /// that bytes make no sense (a text that is not UTF-8), for the error. Nothing where it is not known. A combinator
    /// asks the part that it is of.
    fn origin(&self, _index: usize, _field: usize) -> Option<String> {
        None
    }
}

/// Reads the samples of a batch at once, where that is cheaper than one by one.
pub trait ReadMany {
    /// Reads sample `indices[row]` into row `row` of `into`.
    ///
    /// # Errors
    /// As [`Dataset::read`], for any of the indices; rows may then be half written.
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()>;
}

/// Tells how large samples are, before any of them is read: a slot is laid out by it.
///
/// # Contract
/// As that of [`Dataset`]; what it says is what `read` then writes.
pub trait VariableSize {
    /// Says, for each variable field, how many elements sample `indices[row]` has, in row `row` of `into`.
    ///
    /// # Errors
    /// As [`Dataset::read`], for any of the indices.
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()>;
}

/// The sizes of a batch of a dataset with variable fields.
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
        None => Err(Error::InvalidArgument {
            argument: "dataset",
            reason: format!("samples of {} differ in size: it must implement as_variable", dataset.schema()),
        }),
    }
}

/// Reads a batch by the best way that `dataset` has.
pub(crate) fn read_batch(dataset: &dyn Dataset, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
    if let Some(dataset) = dataset.as_read_many() {
        return dataset.read_many(indices, into);
    }
    indices.iter().enumerate().try_for_each(|(row, &index)| dataset.read(index, &mut into.sample(row)))
}
