//! What a fuzzer calls: a target for each parser of bytes that come from outside.
//!
//! A target makes files of the bytes it is given, opens them as a dataset and reads every sample, in batches and one by one.
//! It panics where the two differ, where an error does not name its file, or where a parser does; the rest (memory, time, reads
//! outside of a file) is seen by whoever calls it. `fuzz/` calls it with millions of inputs; [`corpus`] with those that are
//! kept, so that every test run does.

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

/// A name, and what is called with an input.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them. The inputs that are kept lie in `fuzz/corpus/<name>`.
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
];
