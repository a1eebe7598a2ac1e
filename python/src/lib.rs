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
    use super::{
        batch_sampler::{
            balanced_batch_sampler, class_sampler, length_bucket_batch_sampler, packed_batch_sampler,
            stratified_batch_sampler,
        },
        block_cache::BlockCache,
        bytes_ahead::{BytesAhead, Held, Party},
        class_index::ClassIndex,
        dataset::Dataset,
        engine::Engine,
        format::arrow::{arrow_dataset, arrow_table_dataset},
        format::columnar::{arrow_metadata, parquet_metadata},
        format::csv::{csv_dataset, csv_stream},
        format::folder::folder_dataset,
        format::folder_files::FolderFiles,
        format::json_lines::{json_lines_dataset, json_lines_stream},
        format::mds::mds_dataset,
        format::npy::npy_dataset,
        format::npz::npz_dataset,
        format::parquet::parquet_dataset,
        format::path_pattern::matching_paths,
        format::raw::{raw_dataset, raw_stream},
        format::safetensors::safetensors_dataset,
        format::tar::{tar_dataset, tar_stream},
        format::tfrecord::{tfrecord_dataset, tfrecord_stream},
        format::tokens::{TokenFiles, token_documents_dataset, tokens_dataset},
        format::zarr::{WindowBlocks, hdf5_windows, reference_windows, zarr_windows},
        generators::global_generators::{GlobalGenerators, generator_words, sample_key, torch_state},
        hand_over::HandOver,
        image::decoder::ImageDecoder,
        image::fake_images::fake_images,
        image::file_images::file_images,
        image::operations::{ImageOperations, round_products},
        image::pillow_head::PillowHead,
        image::pipeline::{ImageCache, ImagePipeline, broken_images, decoded_images, linked_image},
        image::pixel_images::{draws_from_python, draws_in_order, pixel_images, stored_images},
        image::transforms::ImageTransforms,
        memory::Indices,
        moments::Moments,
        notices::take_notices,
        order::{Batches, BatchingSampler, Order, Sampler},
        pinned_copy::PinnedCopy,
        plan::{Plan, explicit_batches, explicit_order},
        prefetch::Prefetch,
        reader::Reader,
        sampler::{
            batch_sampler, block_shuffle_sampler, distributed_sampler, mixture_sampler, random_sampler, repeat_sampler,
            sequential_sampler, subset_random_sampler, uneven_block_shuffle_sampler, weighted_random_sampler,
        },
        shards::Shards,
        shuffle_buffer::ShuffleBuffer,
        stack::Kinds,
        stream::Stream,
        stream_pass::StreamPass,
        stream_reader::StreamReader,
        worker_end::WorkerEnd,
        workers::Workers,
    };

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
