//! The Python bindings, the only place that uses pyo3: newtypes over the core, one file per file of the core.
//!
//! A method converts, enters the core by [`detach`], and wraps; decisions are made by the core or the Python package.

mod batch_sampler;
mod block_cache;
mod bytes_ahead;
mod class_index;
mod convert;
mod dataset;
mod detach;
mod dlpack;
mod engine;
mod error;
mod field_kind;
mod format;
mod generators;
mod hand_over;
mod image;
mod in_memory;
mod integers;
mod json;
mod json_column;
mod memory;
mod moments;
mod nested;
mod notices;
mod order;
mod pinned_block;
mod pinned_copy;
mod plan;
mod positions;
mod prefetch;
mod python_chunks;
mod reader;
mod sampler;
mod shards;
mod shuffle_buffer;
mod stack;
mod stream;
mod stream_pass;
mod stream_reader;
mod worker_end;
mod workers;

use pyo3::prelude::*;

/// `sluicegate._core`: the compiled half of the package, see `_core.pyi`.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    /// Registers the fork handler before other code can fork: a child forked meanwhile would wait forever.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        sluicegate::internal::generation();
        Ok(())
    }

    #[pymodule_export]
    use super::batch_sampler::{
        balanced_batch_sampler, class_sampler, length_bucket_batch_sampler, packed_batch_sampler,
        stratified_batch_sampler,
    };
    #[pymodule_export]
    use super::block_cache::BlockCache;
    #[pymodule_export]
    use super::bytes_ahead::{BytesAhead, Held, Party};
    #[pymodule_export]
    use super::class_index::ClassIndex;
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::engine::Engine;
    #[pymodule_export]
    use super::format::arrow::{arrow_dataset, arrow_table_dataset};
    #[pymodule_export]
    use super::format::columnar::{arrow_metadata, parquet_metadata};
    #[pymodule_export]
    use super::format::csv::{csv_dataset, csv_stream};
    #[pymodule_export]
    use super::format::folder::folder_dataset;
    #[pymodule_export]
    use super::format::folder_files::FolderFiles;
    #[pymodule_export]
    use super::format::json_lines::{json_lines_dataset, json_lines_stream};
    #[pymodule_export]
    use super::format::mds::mds_dataset;
    #[pymodule_export]
    use super::format::npy::npy_dataset;
    #[pymodule_export]
    use super::format::npz::npz_dataset;
    #[pymodule_export]
    use super::format::parquet::parquet_dataset;
    #[pymodule_export]
    use super::format::path_pattern::matching_paths;
    #[pymodule_export]
    use super::format::raw::{raw_dataset, raw_stream};
    #[pymodule_export]
    use super::format::safetensors::safetensors_dataset;
    #[pymodule_export]
    use super::format::tar::{tar_dataset, tar_stream};
    #[pymodule_export]
    use super::format::tfrecord::{tfrecord_dataset, tfrecord_stream};
    #[pymodule_export]
    use super::format::tokens::TokenFiles;
    #[pymodule_export]
    use super::format::tokens::{token_documents_dataset, tokens_dataset};
    #[pymodule_export]
    use super::format::zarr::{WindowBlocks, hdf5_windows, reference_windows, zarr_windows};
    #[pymodule_export]
    use super::generators::global_generators::{GlobalGenerators, generator_words, sample_key, torch_state};
    #[pymodule_export]
    use super::hand_over::HandOver;
    #[pymodule_export]
    use super::image::decoder::ImageDecoder;
    #[pymodule_export]
    use super::image::fake_images::fake_images;
    #[pymodule_export]
    use super::image::file_images::file_images;
    #[pymodule_export]
    use super::image::operations::{ImageOperations, round_products};
    #[pymodule_export]
    use super::image::pillow_head::PillowHead;
    #[pymodule_export]
    use super::image::pipeline::{ImageCache, ImagePipeline, broken_images, decoded_images, linked_image};
    #[pymodule_export]
    use super::image::pixel_images::{draws_from_python, draws_in_order, pixel_images, stored_images};
    #[pymodule_export]
    use super::image::transforms::ImageTransforms;
    #[pymodule_export]
    use super::memory::Indices;
    #[pymodule_export]
    use super::moments::Moments;
    #[pymodule_export]
    use super::notices::take_notices;
    #[pymodule_export]
    use super::order::{Batches, BatchingSampler, Order, Sampler};
    #[pymodule_export]
    use super::pinned_copy::PinnedCopy;
    #[pymodule_export]
    use super::plan::{Plan, explicit_batches, explicit_order};
    #[pymodule_export]
    use super::prefetch::Prefetch;
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::sampler::{
        batch_sampler, block_shuffle_sampler, distributed_sampler, mixture_sampler, random_sampler, repeat_sampler,
        sequential_sampler, subset_random_sampler, uneven_block_shuffle_sampler, weighted_random_sampler,
    };
    #[pymodule_export]
    use super::shards::Shards;
    #[pymodule_export]
    use super::shuffle_buffer::ShuffleBuffer;
    #[pymodule_export]
    use super::stack::Kinds;
    #[pymodule_export]
    use super::stream::Stream;
    #[pymodule_export]
    use super::stream_pass::StreamPass;
    #[pymodule_export]
    use super::stream_reader::StreamReader;
    #[pymodule_export]
    use super::worker_end::WorkerEnd;
    #[pymodule_export]
    use super::workers::Workers;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
