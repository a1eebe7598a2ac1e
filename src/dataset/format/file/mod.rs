//! Files: opened, mapped, pooled, written, and checked to be the ones that were indexed.

pub(super) mod access;
pub(super) mod block_sums;
pub(super) mod data_file;
mod file_identity;
pub(super) mod known_format;
pub(super) mod mapped_file;
pub(super) mod masked_checksum;
pub(super) mod name_pattern;
pub(super) mod new_file;
pub(super) mod notices;
pub(super) mod open_file;
pub(super) mod page_cache;
pub(super) mod parts;
pub(super) mod path_pattern;
pub(super) mod pool;
pub(super) mod recent_files;
pub(super) mod room;
pub(super) mod scan;
pub(super) mod source_files;
pub(super) mod text_file;

pub use notices::take_notices;
pub use path_pattern::matching_paths;
