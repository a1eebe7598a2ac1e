//! Compressed files, unpacked to a folder or decompressed on the fly.

pub(super) mod unpacked;
pub(super) mod unpacked_room;
pub(super) mod zstd_frames;

pub use unpacked::UnpackedFolder;
