//! A data loader for training, made for PyTorch and usable without Python.
//!
//! ```text
//!             sampler            shard             prefetch                 fetch + collate               handover
//! map-style:  IndexBatch ──▶ mine? (pure ──▶ room ahead? take a slot ──▶ read each sample straight ──▶ reorder ──▶ lease
//!             {epoch, batch,  arithmetic)      (bounded in batches)        into its row of the slot      by batch
//!              indices}                                                    (threads)
//! ```
//!
//! One rule: **order is a pure function of (seed, epoch, position); state is the position that the consumer has
//! reached.** Everything that will be read is known in advance, so the rest is prefetching.
//!
//! The principal types are [`Dataset`] (the data to read), [`Sampler`] (which index comes next), [`EpochPlan`] (which
//! batches are this rank's), [`Collate`] (how samples become a batch), and [`DataLoader`], which connects them to
//! threads and memory:
//!
//! ```
//! use sluicegate::{DataLoader, DatasetExt, InMemory};
//!
//! let image = InMemory::from_vec("image", vec![0_u8; 100 * 28 * 28], [28, 28])?;
//! let label = InMemory::from_vec("label", vec![3_i64; 100], [])?;
//! let dataset = image.zip(label)?;
//!
//! let loader = DataLoader::builder(dataset).batch_size(32).shuffle(7).threads(2).build()?;
//! let mut batches = loader.epoch(0)?;
//! let first = batches.next().expect("100 samples make a batch")?;
//! assert_eq!(first.field("image")?.shape(), [32, 28, 28]);
//! assert_eq!(first.field("label")?.view::<i64>()?, [3; 32]);
//!
//! let state = batches.state(); // plain JSON; the rest follows from it, with any number of threads and of ranks
//! assert_eq!(loader.resume(&state)?.count(), 3);
//! # Ok::<(), sluicegate::Error>(())
//! ```
//!
//! For samples without fields, use [`ItemDataset`] and [`ItemLoader`]: items of any type, with a closure as collate;
//! everything else is the same. The methods that derive datasets from others (`map`, `filter`, `shuffle`, ...) are in
//! [`DatasetExt`], [`ItemDatasetExt`], and [`IterableDatasetExt`].
//!
//! # Layout
//! There is one module per stage, with one file per noun. All modules may use `error`, `sample`, `rng`, `shard`, and
//! `local_path`. `memory`, `dataset`, `transform`, `collate`, and `sampler` build on them and do not depend on each
//! other (except for a dataset's arrays, which are in segments, the JPEG decoder, and vectors). `adaptor`, which
//! derives datasets from others, and `pipeline` build on those. `state` and `loader` come next, and `integration`, with
//! one file per library that batches are passed to, is on top. A plan of `sampler` determines which part of an order is
//! this rank's, and in which batches, using the arithmetic of `shard`. Only `memory` contains `unsafe` code; its README
//! explains why it is sound.
//!
//! The crate in `python/` wraps all this as the extension module of the Python package. The hidden module `internal`
//! has what only that crate and the tests use; it is not a stable API.
//!
//! # Features
//! No feature is enabled by default.
//!
//! - `image`: decoding and transforms.
//! - `npz`, `arrow`, `parquet`: files in these formats; with `arrow`, also record batches in both directions.
//! - `zarr`: windows of Zarr stores and netCDF-3 files.
//! - `ndarray`, `candle`, `burn`: conversion to and from their batches and datasets (burn's datasets and loaders in
//!   both directions). `burn-flex` is burn with its CPU backend, for the example and the tests.
//! - `futures`: an epoch as a `Stream`.
//!
//! The crate needs Rust 1.88. The dependencies of burn 0.22 need 1.95, and candle 0.11 is tested with that version.

/// The Rust examples of the documentation, which run as doctests too.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Documentation;

mod adaptor;
mod collate;
mod dataset;
mod error;
mod integration;
#[doc(hidden)]
pub mod internal;
mod loader;
mod local_path;
mod memory;
mod pipeline;
mod rng;
mod sample;
mod sampler;
mod shard;
mod state;
#[cfg(feature = "image")]
mod transform;
mod watch;

pub use adaptor::{
    ConcatItems, DatasetExt, ItemDatasetExt, IterableDatasetExt, MapItems, MapRandomItems, Sample, StreamSample,
    SubsetItems, Transform, WindowItems, ZipItems,
};
pub use collate::{BatchField, BatchLayout, Collate, PadSamples, Padding, Reused, StackSamples, reuse_batches};
#[cfg(feature = "npz")]
pub use dataset::format::Npz;
#[cfg(feature = "arrow")]
pub use dataset::format::{Arrow, ColumnarOptions, Decimals, FillValue, NullRule, RecordBatches, Strings};
pub use dataset::format::{
    Csv, CsvHeader, Damages, Documents, Features, Folder, FolderClasses, FolderLinks, FolderOptions, JsonLines, Mds,
    NestedType, NestedValue, Npy, OnMissing, Raw, RawField, Safetensors, SampleBlock, StreamDataset, StreamFormat,
    StreamSource, Tar, TarEnd, TarField, TarOptions, TarValue, TfRecord, TokenDocuments, TokenFiles, TokenLayout,
    TokenOutput, TokenWindows, Tokens, TypedField, WholeSamples,
};
#[cfg(feature = "parquet")]
pub use dataset::format::{Parquet, ParquetFilter, ParquetOptions, Relation};
#[cfg(feature = "zarr")]
pub use dataset::format::{WindowEdges, WindowOrder, Zarr, ZarrOptions};
pub use dataset::{
    Advance, BlockSize, Blocks, Concat, Dataset, InMemory, ItemDataset, IterableDataset, ReadMany, SampleStream, Stack,
    StopSignal, StreamPart, StreamPosition, Subset, VariableSize,
};
#[cfg(feature = "image")]
pub use dataset::{DecodedField, DecodedImages};
pub use error::{Error, Result};
#[cfg(feature = "burn")]
pub use integration::{BurnLoader, FromBurn, ToBurn, burn_collate};
#[cfg(feature = "futures")]
pub use loader::BatchStream;
pub use loader::{
    BatchIds, Batches, BatchesWithIds, DataLoader, DataLoaderBuilder, ItemLoader, ItemLoaderBuilder, StreamBatches,
};
pub use pipeline::{Batch, Delivery, FieldView};
pub use rng::{Permutation, TorchGenerator, sample_key};
pub use sample::{BatchWriter, Column, DType, Element, Field, SampleWriter, Schema, Sizes, SizesWriter};
pub use sampler::{
    BalancedBatchSampler, BatchLimit, BatchSampler, BatchingSampler, BlockShuffleSampler, BufferBound, ClassIndex,
    ClassSampler, DistributedSampler, EpochBatches, EpochOrder, EpochPlan, LastBatch, LengthBucketBatchSampler,
    MixtureSampler, MixtureWeights, PlannedBatch, RandomSampler, RepeatSampler, Sampler, SequentialSampler, Shuffling,
    StopCriteria, StratifiedBatchSampler, SubsetRandomSampler, TorchRandomSampler, WeightedRandomSampler,
};
pub use shard::{Remainder, Shard};
pub use state::{LoaderState, StreamState};
#[cfg(feature = "image")]
pub use transform::{
    Antialias, AugmentPolicy, BoxFormat, ChannelOrder, CropDraws, DecodeOptions, ErasingValue, Frame, Image, ImageMode,
    ImagePipeline, ImageTransform, Interpolation, Orientation, PaddingMode, ResizeTo, SmallImage, TransformedImage,
    Truncated, Values,
};
