//! One file per format on disk, and what they share.

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "arrow")]
mod arrow_batch;
#[cfg(all(feature = "arrow", feature = "python"))]
mod arrow_column;
#[cfg(feature = "arrow")]
mod arrow_files;
#[cfg(feature = "arrow")]
mod arrow_index;
#[cfg(all(feature = "arrow", feature = "python"))]
mod arrow_number;
#[cfg(all(feature = "arrow", feature = "python"))]
mod arrow_table;
mod batch_key;
mod block_cache;
#[cfg(all(test, feature = "arrow"))]
mod block_cache_tests;
#[cfg(feature = "arrow")]
mod block_starts;
mod block_sums;
mod broken;
#[cfg(feature = "image")]
mod broken_images;
mod byte_stream;
mod cache_info;
#[cfg(feature = "arrow")]
mod columnar;
mod csv;
mod csv_fields;
mod csv_parse;
mod csv_row;
mod csv_scan;
mod csv_types;
mod damages;
mod data_file;
mod decoding;
mod example;
mod example_fields;
mod file_access;
mod file_parts;
mod file_pool;
mod folder;
#[cfg(feature = "image")]
mod folder_images;
mod folder_walk;
#[cfg(feature = "image")]
mod image_link;
mod index_columns;
mod index_file;
mod index_freshness;
mod index_lock;
mod index_place;
mod index_siblings;
mod json_fields;
mod json_lines;
mod json_parse;
mod json_scan;
mod json_text;
mod known_format;
mod mapped_file;
mod masked_checksum;
mod mds;
mod mds_blocks;
mod mds_column;
mod mds_index;
mod mds_shard;
mod megatron_index;
mod name_pattern;
mod nested_type;
mod new_file;
mod notices;
mod npy;
mod npy_form;
mod npy_header;
mod number;
mod open_file;
mod page_cache;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_bounds;
#[cfg(feature = "parquet")]
mod parquet_columns;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(feature = "parquet")]
mod parquet_filter;
#[cfg(feature = "parquet")]
mod parquet_groups;
#[cfg(feature = "parquet")]
mod parquet_nested;
#[cfg(feature = "parquet")]
mod parquet_reuse;
#[cfg(feature = "parquet")]
mod parquet_schema;
#[cfg(feature = "parquet")]
mod parquet_shards;
#[cfg(feature = "parquet")]
mod parquet_source;
#[cfg(feature = "parquet")]
mod parquet_texts;
mod protobuf;
mod raw;
mod raw_parse;
mod recent_files;
#[cfg(feature = "arrow")]
mod record_batches;
mod room;
mod safetensors;
mod safetensors_header;
mod sample_block;
mod sample_index;
#[cfg(test)]
mod sample_index_tests;
mod scan;
mod shard_file;
mod shard_threads;
mod source_files;
mod spans;
mod stored_index;
mod stream_dataset;
mod stream_parse;
mod stream_process;
mod stream_source;
mod tar;
mod tar_field;
mod tar_header;
mod tar_index;
mod tar_kept;
mod tar_key;
mod tar_members;
mod tar_offsets;
mod tar_options;
mod tar_parse;
mod tar_pax;
mod tar_places;
mod tar_shard;
mod tar_shards;
mod tar_walk;
mod tar_wanted;
mod tar_writer;
mod text_file;
mod text_parse;
mod tfrecord;
mod tfrecord_parse;
mod tfrecord_scan;
mod thread_pool;
mod token_documents;
mod token_files;
mod token_form;
mod token_shards;
mod token_stream;
mod tokens;
mod typed_field;
mod unpacked;
mod unpacked_room;
mod whole_samples;
mod zstd_frames;

#[cfg(feature = "parquet")]
pub use self::parquet::{Parquet, ParquetOptions};
#[cfg(feature = "arrow")]
pub use arrow::Arrow;
#[cfg(all(feature = "arrow", feature = "python"))]
pub(crate) use arrow_table::{ArrowTable, Step, TableValue};
#[cfg(feature = "image")]
pub use broken_images::{BrokenImages, EncodedField, ImageSources, broken_images};
pub use byte_stream::StreamPacking;
pub use cache_info::CacheInfo;
#[cfg(feature = "arrow")]
pub use columnar::{ColumnKind, ColumnarOptions, Decimals, FillValue, Nesting, NullRule, Strings};
pub use csv::{Csv, CsvHeader};
pub use damages::Damages;
pub use folder::Folder;
pub use folder_walk::{FolderClasses, FolderLinks, FolderOptions};
#[cfg(feature = "image")]
pub use image_link::ImageLink;
pub use json_lines::JsonLines;
pub use mds::Mds;
#[cfg(feature = "python")]
pub(crate) use nested_type::NestedBytes;
pub use nested_type::{NestedType, NestedValue};
pub use notices::take_notices;
pub use npy::Npy;
#[cfg(feature = "parquet")]
pub use parquet_columns::{ParquetColumn, ParquetElement, ParquetField};
#[cfg(feature = "parquet")]
pub use parquet_filter::{ParquetFilter, Relation};
#[cfg(feature = "parquet")]
pub use parquet_shards::{ParquetCompression, ParquetShardOptions, ParquetShards};
pub use raw::{Raw, RawField};
#[cfg(feature = "arrow")]
pub use record_batches::RecordBatches;
pub use safetensors::Safetensors;
pub use sample_block::SampleBlock;
pub use shard_threads::{Wait, WrittenShard};
pub use stream_dataset::{StreamDataset, StreamFormat};
pub use stream_source::StreamSource;
pub use tar::Tar;
pub use tar_field::{TarField, TarValue};
pub use tar_members::TarEnd;
pub use tar_options::{OnMissing, TarOptions};
pub use tar_shards::TarShards;
pub use tar_writer::TarWriter;
pub use tfrecord::{Features, TfRecord};
pub use token_documents::{DocumentPiece, TokenDocuments};
pub use token_files::{Documents, TokenFiles, TokenLayout};
pub use token_shards::{TokenShardLayout, TokenShards};
pub use tokens::{TokenOutput, TokenWindows, Tokens};
pub use typed_field::{Content, TypedField};
pub use unpacked::UnpackedFolder;
pub use whole_samples::WholeSamples;
