//! The positions of samples in files: found once, stored in an index file, and read from there.

pub(super) mod broken;
pub(super) mod columns;
pub(super) mod damages;
pub(super) mod file;
pub(super) mod freshness;
pub(super) mod lock;
pub(super) mod place;
pub(super) mod sample_index;
#[cfg(test)]
mod sample_index_tests;
mod siblings;
pub(super) mod spans;
mod stored_index;
pub(super) mod whole_samples;

pub use damages::Damages;
pub use whole_samples::WholeSamples;
