//! One file per format on disk, and what they share.

#[allow(dead_code, reason = "the formats that stand on it come next")]
mod block_cache;
mod data_file;
#[allow(dead_code, reason = "the formats that stand on it come next")]
mod file_pool;
mod folder;
mod folder_walk;
#[allow(dead_code, reason = "the formats that stand on it come next")]
mod index_file;
#[allow(dead_code, reason = "the formats that stand on it come next")]
mod index_place;
mod mapped_file;
mod megatron_index;
mod name_pattern;
mod npy;
mod npy_header;
mod raw;
#[allow(dead_code, reason = "the formats that stand on it come next")]
mod sample_index;
#[cfg(test)]
mod sample_index_tests;
mod scan;
#[allow(dead_code, reason = "the formats that stand on it come next")]
mod source_files;
mod token_files;
mod token_stream;
mod tokens;

pub use folder::Folder;
pub use folder_walk::{FolderClasses, FolderLinks, FolderOptions};
pub use npy::Npy;
pub use raw::{Raw, RawField};
pub use token_files::{Documents, TokenFiles, TokenLayout};
pub use tokens::{TokenOutput, TokenWindows, Tokens};
