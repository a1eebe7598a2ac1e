//! One file per format, and the types that several of them take from Python.

pub(crate) mod arrow;
pub(crate) mod arrow_table;
pub(crate) mod columnar;
pub(crate) mod csv;
pub(crate) mod folder;
pub(crate) mod folder_files;
pub(crate) mod json_lines;
pub(crate) mod mds;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod parquet;
pub(crate) mod path_pattern;
pub(crate) mod raw;
pub(crate) mod safetensors;
pub(crate) mod tar;
pub(crate) mod tfrecord;
pub(crate) mod tokens;
pub(crate) mod typed_field;
pub(crate) mod zarr;
