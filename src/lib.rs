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
//! reached.** What will be read is known in advance, so everything else is prefetching.
//!
//! The principal types are [`Dataset`] (what can be read), [`Sampler`] (which index comes next), [`EpochPlan`] (which
//! batches of that are this rank's, by arithmetic), [`Collate`] (how samples become a batch) and [`DataLoader`], which
//! wires them to threads and memory:
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
//! Who wants no fields has [`ItemDataset`] and [`ItemLoader`]: items of any type, a closure as collate, and the rest the same. What
//! makes datasets of others (`map`, `filter`, `shuffle`, ...) is in [`DatasetExt`], [`ItemDatasetExt`] and [`IterableDatasetExt`].
//!
//! # Layout
//! A module per stage, one file per noun: `error`, `sample`, `rng`, `shard` and `local_path` are known to all; `memory`, `dataset`,
//! `transform`, `collate` and `sampler` stand on them and do not know each other (but for a dataset's arrays, which lie in
//! segments, the decoder of JPEG and vectors); `adaptor`, which makes datasets of others, and `pipeline` stand on those,
//! `state` and `loader` on top, and `integration`, a file for each library that batches are handed to, on those. What of an
//! order is this rank's, and in which batches, is said by a plan of `sampler`, by the arithmetic of `shard`. `memory` alone has
//! `unsafe`, and says in its README why it is sound. With the feature `python`, `python` wraps all this as the extension
//! module of the Python package (and its `memory.rs` has what is unsafe of that).
//!
//! # Features
//! None is on by default. `image`: decoding and transforms. `arrow` and `parquet`: their files; with `arrow` record batches, too,
//! in and out. `ndarray`, `candle` and `burn`: batches and datasets as theirs (burn's datasets and loaders both ways). The crate
//! needs Rust 1.88; what burn 0.22 depends on needs 1.95, with which candle 0.11 is tested, too. `futures`: an epoch as a `Stream`. `python`: the extension
//! module. `burn-flex` is burn with its backend on the CPU, for the example and the tests.

/// The Rust examples of the documentation, which run as doctests too.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Documentation;

mod adaptor;
mod collate;
mod dataset;
mod error;
mod integration;
mod loader;
mod local_path;
pub mod memory;
mod pipeline;
#[cfg(feature = "python")]
mod python;
mod rng;
mod sample;
mod sampler;
mod shard;
mod state;
#[cfg(feature = "image")]
mod transform;
mod watch;

pub use adaptor::{
    ConcatItems, DatasetExt, ItemDatasetExt, IterableDatasetExt, Map, MapItems, MapRandomItems, MixItems, Sample,
    StreamFilter, StreamMap, StreamMix, StreamPrefetch, StreamSample, StreamSkip, StreamTake, StreamWindow, StreamZip,
    SubsetItems, Transform, Window, WindowItems, ZipItems,
};
pub use collate::{
    BatchField, BatchLayout, Collate, PackRows, PackedLabels, PackedPieces, PadSamples, Padding, Reused, StackSamples,
    reuse_batches,
};
#[cfg(feature = "arrow")]
pub use dataset::format::{Arrow, RecordBatches};
#[cfg(feature = "image")]
pub use dataset::format::{BrokenImages, EncodedField, ImageLink, ImageSources, broken_images};
pub use dataset::format::{
    CacheInfo, Content, Csv, CsvHeader, Damages, DocumentPiece, Documents, Features, Folder, FolderClasses,
    FolderLinks, FolderOptions, JsonLines, Mds, NestedType, NestedValue, Npy, OnMissing, Raw, RawField, Safetensors,
    SampleBlock, StreamDataset, StreamFormat, StreamPacking, StreamSource, Tar, TarEnd, TarField, TarOptions,
    TarShards, TarValue, TarWriter, TfRecord, TokenDocuments, TokenFiles, TokenLayout, TokenOutput, TokenShardLayout,
    TokenShards, TokenWindows, Tokens, TypedField, UnpackedFolder, Wait, WholeSamples, WrittenShard, take_notices,
};
#[cfg(feature = "arrow")]
pub use dataset::format::{ColumnKind, ColumnarOptions, Decimals, FillValue, Nesting, NullRule, Strings};
#[cfg(feature = "parquet")]
pub use dataset::format::{
    Parquet, ParquetColumn, ParquetCompression, ParquetElement, ParquetField, ParquetFilter, ParquetOptions,
    ParquetShardOptions, ParquetShards, Relation,
};
pub use dataset::{
    Advance, BlockSize, Blocks, Concat, ConsumedSamples, Dataset, Drawing, InMemory, ItemDataset, IterableDataset,
    Ragged, ReadMany, SampleStream, Stack, StopSignal, StreamPart, StreamPosition, StreamSplit, Subset, VariableSize,
};
#[cfg(feature = "image")]
pub use dataset::{DecodedField, DecodedImages, FileImages, OtherImages, PixelImages};
pub use error::{Error, Result};
#[cfg(feature = "burn")]
pub use integration::{BurnLoader, FromBurn, ToBurn, burn_collate};
#[cfg(feature = "futures")]
pub use loader::BatchStream;
pub use loader::{
    BatchIds, Batches, BatchesWithIds, DataLoader, DataLoaderBuilder, ItemLoader, ItemLoaderBuilder, StreamBatches,
};
pub use pipeline::{
    Answer, AnswerWait, Batch, BatchNumber, BytesAhead, Delivery, Fetch, FetchPacked, FetchPackedFields, FetchSamples,
    FieldView, Held, IndexBatch, Outcome, PackedField, Party, PlacedField, Pool, Prefetch, ReadAhead, ShuffledSamples,
    SlotCopy, Task, TaskKind, WorkerEnd, Workers, end_with,
};
pub use rng::{GeneratorPlace, Permutation, TorchGenerator, randperm, sample_key};
pub use sample::{BatchWriter, Column, DType, Element, Field, SampleWriter, Schema, Sizes, SizesWriter};
pub use sampler::{
    BalancedBatchSampler, BatchLimit, BatchOrder, BatchSampler, BatchingSampler, BlockShuffleSampler, BufferBound,
    BufferPosition, ClassIndex, ClassSampler, Course, DistributedSampler, EpochBatches, EpochOrder, EpochPlan,
    ExplicitOrder, LastBatch, LengthBucketBatchSampler, MixtureSampler, MixtureWeights, PackedBatchSampler, Packing,
    PieceCode, PlannedBatch, RandomSampler, RepeatSampler, Repetition, Replacement, Sampler, SequentialSampler,
    ShuffleBuffer, Shuffling, StopCriteria, StratifiedBatchSampler, SubsetRandomSampler, TorchRandomSampler,
    WeightedRandomSampler,
};
pub use shard::{Remainder, Shard, ShardPosition};
pub use state::{LoaderState, StreamState};
#[cfg(feature = "image")]
pub use transform::{
    Antialias, AnyPicture, AugMix, AugmentPolicy, BoxFormat, Boxes, ChannelOrder, Clamping, Coordinates, CropDraws,
    DecodeOptions, Eraser, ErasingValue, Frame, GaussianNoise, Image, ImageCache, ImageForm, ImageMode, ImagePipeline,
    ImageShape, ImageTransform, Interpolation, JpegQuality, JpegScale, KeyPoints, MaskValue, Moves, Noise, Operation,
    Orientation, PaddingMode, Picture, PixelPipeline, ProductRounding, RandomIoUCrop, RandomPerspective, RandomResize,
    RandomShortestSize, RandomZoomOut, ResizeTo, ScaleJitter, SmallImage, Torchvision, TransformedImage, Truncated,
    Values, decode_image, fixed_size, image_size,
};
