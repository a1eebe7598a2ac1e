//! Used only by the extension module of the Python package and the tests of this crate. Not a stable API: a name here
//! may change or disappear in any version.

pub use crate::collate::{PackRows, PackedLabels, PackedPieces};
#[cfg(feature = "arrow")]
pub use crate::dataset::format::{ArrowTable, ColumnKind, Nesting, Step, TableValue};
#[cfg(feature = "image")]
pub use crate::dataset::format::{BrokenImages, EncodedField, ImageLink, ImageSources, broken_images};
pub use crate::dataset::format::{
    CacheInfo, Content, DocumentPiece, NestedBytes, StreamPacking, TarShards, TarWriter, TokenShardLayout, TokenShards,
    UnpackedFolder, Wait, WrittenShard, matching_paths, take_notices,
};
#[cfg(feature = "zarr")]
pub use crate::dataset::format::{
    ChunkError, ChunkReader, ForeignArray, ForeignChunks, Member, ReadChunks, Reference, ReferenceLayout,
    ReferenceSource, ReferenceTable, numpy_type,
};
#[cfg(feature = "parquet")]
pub use crate::dataset::format::{
    ParquetColumn, ParquetCompression, ParquetElement, ParquetField, ParquetShardOptions, ParquetShards,
};
#[cfg(any(feature = "image", feature = "zarr"))]
pub use crate::dataset::with_helpers;
pub use crate::dataset::{ConsumedSamples, Drawing, Ragged, StreamSplit};
#[cfg(feature = "image")]
pub use crate::dataset::{FakeImages, FileImages, FileMode, OtherImages, PixelImages, Pixels};
#[cfg(feature = "arrow")]
pub use crate::memory::ForeignTable;
pub use crate::memory::{
    Arena, Array, Bell, EventBell, EventWoken, ForeignWords, Grant, Lease, Ring, Scattered, Segment, Slab, Woken,
    container_bytes, generation, keep_freed_memory, memory_limit, return_freed_memory, widen,
};
#[cfg(feature = "image")]
pub use crate::memory::{JpegColors, JpegDecoder, JpegFault, JpegHeader, KeptValues, Region, encode_jpeg};
pub use crate::pipeline::{
    Answer, AnswerWait, BatchNumber, BytesAhead, Fetch, FetchPacked, FetchPackedFields, FetchSamples, Held, IndexBatch,
    Outcome, PackedField, Party, PlacedField, Pool, Prefetch, ReadAhead, ShuffledSamples, SlotCopy, StreamPass, Task,
    TaskKind, WorkerEnd, Workers, end_with,
};
pub use crate::rng::{GENERATOR_WORDS, GeneratorPlace, GeneratorStream, PythonGenerator, generator_words};
pub use crate::sample::Moments;
pub use crate::sampler::{
    BatchOrder, BufferPosition, ExplicitOrder, PackedBatchSampler, Packing, PieceCode, ShuffleBuffer,
};
pub use crate::shard::ShardPosition;
#[cfg(feature = "image")]
pub use crate::transform::{
    AnyPicture, Beginning, Boxes, Clamping, Coordinates, Eraser, ImageCache, ImageForm, ImageShape, JpegScale,
    KeyPoints, MaskValue, Moves, Noise, Operation, Picture, PixelPipeline, PlainFile, ProductRounding, Torchvision,
    ask_torch, fixed_size, image_size,
};

/// Progress and cancellation of long-running work.
pub mod watch {
    pub use crate::watch::{Progress, advance, expect, within};
}
