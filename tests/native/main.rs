//! The tests of the core, in one binary: they use only the public interface.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod adaptor;
mod architecture;
mod arena;
#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "arrow")]
mod arrow_table;
mod balance;
mod batch;
#[cfg(feature = "futures")]
mod batch_stream;
mod blocks;
mod bytes_ahead;
mod class_batches;
mod collate;
mod conformance;
mod container;
mod csv;
mod dataset;
mod datasets;
mod every_sampler;
#[cfg(feature = "image")]
mod fake_images;
mod fingerprint;
mod folder;
mod fuzz;
mod golden;
#[cfg(feature = "image")]
mod image_operations;
#[cfg(feature = "image")]
mod image_transform;
#[cfg(feature = "image")]
mod images;
#[cfg(feature = "arrow")]
mod integration_arrow;
#[cfg(feature = "burn-flex")]
mod integration_burn;
#[cfg(feature = "candle")]
mod integration_candle;
#[cfg(feature = "ndarray")]
mod integration_ndarray;
mod interpreted;
mod item_adaptor;
mod item_loader;
#[cfg(feature = "image")]
mod jpeg;
mod json_lines;
mod loader;
mod local_path;
mod mds;
mod memory;
mod mixture;
mod npy;
#[cfg(feature = "npz")]
mod npz;
mod own_process;
mod packed;
mod packed_fetch;
mod panic;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "image")]
mod pillow_images;
mod pipeline;
#[cfg(feature = "image")]
mod pixel_images;
mod plan;
mod pool;
mod python_draws;
mod ragged;
mod randomness;
mod raw;
mod resume;
mod rng;
mod safetensors;
mod sample;
mod sampler;
mod samplers;
mod shard;
mod shuffle_buffer;
mod state;
mod states;
mod stream;
mod stream_adaptor;
mod stream_pass;
mod stream_prefetch;
mod stream_state;
mod tar;
mod tar_stream;
mod tfrecord;
mod tokens;
mod torch_draws;
mod weighted;
mod whole_samples;
mod workers;
mod written;
#[cfg(feature = "zarr")]
mod zarr;
