//! Fuzz targets: one for each parser of external bytes.
//!
//! A target creates files from its input, opens them as a dataset, and reads every sample, in batches and one by one.
//! It panics if the two differ, if an error does not name its file, or if a parser panics; its caller detects
//! everything else (memory, time, reads outside a file). `fuzz/` calls it with millions of inputs, and [`corpus`] with
//! the saved ones in every test run.

#[cfg(feature = "arrow")]
mod columns;
mod corpus;
#[cfg(feature = "image")]
mod image;
mod indices;
mod input;
mod offsets;
#[cfg(feature = "parquet")]
mod parquet;
mod reading;
mod records;
mod rows;
mod scratch;
mod state;
mod streams;
mod tar;
mod texts;
#[cfg(feature = "zarr")]
mod zarr;

/// A name, and the function that is called with an input.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All targets. The saved inputs are in `fuzz/corpus/<name>`.
pub(crate) const TARGETS: &[Target] = &[
    #[cfg(feature = "arrow")]
    ("arrow", columns::arrow),
    ("csv", texts::csv),
    ("csv_stream", streams::csv),
    #[cfg(feature = "image")]
    ("image", image::image),
    #[cfg(feature = "parquet")]
    ("index_of_broken", indices::of_broken),
    #[cfg(feature = "parquet")]
    ("index_of_filter", indices::of_filter),
    ("index_of_lines", indices::of_lines),
    ("index_of_tar", indices::of_tar),
    ("index_of_tfrecord", indices::of_tfrecord),
    ("json_lines", texts::json_lines),
    ("json_lines_stream", streams::json_lines),
    ("mds", records::mds),
    ("mds_zstd", records::mds_zstd),
    ("megatron", rows::megatron),
    ("name_pattern", texts::name_pattern),
    ("npy", rows::npy),
    #[cfg(feature = "parquet")]
    ("parquet", parquet::parquet),
    #[cfg(feature = "parquet")]
    ("parquet_filter", parquet::parquet_filter),
    #[cfg(feature = "npz")]
    ("npz", rows::npz),
    ("raw", rows::raw),
    ("raw_stream", streams::raw),
    ("safetensors", rows::safetensors),
    ("state", state::state),
    ("stream_state", state::stream_state),
    ("tar", tar::tar),
    ("tar_gz", tar::tar_gz),
    ("tar_offsets", offsets::tar_offsets),
    ("tar_stream", streams::archive),
    ("tar_zst", tar::tar_zst),
    ("tfrecord", records::tfrecord),
    ("tfrecord_stream", streams::tfrecord),
    ("tokens", rows::tokens),
    #[cfg(feature = "zarr")]
    ("zarr", zarr::zarr),
];
