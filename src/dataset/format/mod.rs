//! One folder per format on disk, and folders for the code that they share.
//!
//! No format imports another. The shared folders are layered, from the bottom up: `block`, `file`, `array`, `shard`,
//! `index`, `image`, `packing`, `field`, `columnar` and `sequential`. `tests/native/architecture` has the table of
//! allowed imports.

mod array;
#[cfg(feature = "arrow")]
mod arrow;
mod block;
#[cfg(feature = "arrow")]
mod columnar;
mod csv;
mod field;
mod file;
mod folder;
#[cfg(feature = "image")]
mod image;
mod index;
mod json;
mod mds;
mod npy;
#[cfg(feature = "npz")]
mod npz;
mod packing;
#[cfg(feature = "parquet")]
mod parquet;
mod raw;
mod safetensors;
mod sequential;
mod shard;
mod tar;
mod tfrecord;
mod tokens;
#[cfg(feature = "zarr")]
mod zarr;

#[cfg(feature = "arrow")]
pub use self::arrow::{Arrow, RecordBatches};
#[cfg(feature = "arrow")]
pub use self::arrow::{ArrowTable, Step, TableValue};
pub use self::block::CacheInfo;
#[cfg(feature = "arrow")]
pub(crate) use self::columnar::number_array;
#[cfg(feature = "arrow")]
pub use self::columnar::{ColumnKind, ColumnarOptions, Decimals, FillValue, Nesting, NullRule, Strings};
pub use self::csv::{Csv, CsvHeader};
pub use self::field::NestedBytes;
pub use self::field::{Content, NestedType, NestedValue, SampleBlock, TypedField};
pub use self::file::{matching_paths, take_notices};
pub use self::folder::{Folder, FolderClasses, FolderLinks, FolderOptions};
#[cfg(feature = "image")]
pub use self::image::{BrokenImages, EncodedField, ImageLink, ImageSources, broken_images};
pub use self::index::{Damages, WholeSamples};
pub use self::json::JsonLines;
pub use self::mds::Mds;
pub use self::npy::Npy;
#[cfg(feature = "npz")]
pub use self::npz::Npz;
pub use self::packing::UnpackedFolder;
#[cfg(feature = "parquet")]
pub use self::parquet::{
    Parquet, ParquetColumn, ParquetCompression, ParquetElement, ParquetField, ParquetFilter, ParquetOptions,
    ParquetShardOptions, ParquetShards, Relation,
};
pub use self::raw::{Raw, RawField};
pub use self::safetensors::Safetensors;
pub use self::sequential::{StreamDataset, StreamFormat, StreamPacking, StreamSource};
pub use self::shard::{Wait, WrittenShard};
pub use self::tar::{OnMissing, Tar, TarEnd, TarField, TarOptions, TarShards, TarValue, TarWriter};
pub use self::tfrecord::{Features, TfRecord};
pub use self::tokens::{
    DocumentPiece, Documents, TokenDocuments, TokenFiles, TokenLayout, TokenOutput, TokenShardLayout, TokenShards,
    TokenWindows, Tokens,
};
#[cfg(feature = "zarr")]
pub use self::zarr::{
    ChunkError, ChunkReader, ForeignArray, ForeignChunks, Member, ReadChunks, Reference, ReferenceLayout,
    ReferenceSource, ReferenceTable, numpy_type,
};
#[cfg(feature = "zarr")]
pub use self::zarr::{WindowEdges, WindowOrder, Zarr, ZarrOptions};
