//! Blocks of samples that are decoded together: their boundaries, and a cache of them.

pub(super) mod batch_key;
pub(super) mod cache;
pub(super) mod cache_info;
#[cfg(all(test, feature = "arrow"))]
mod cache_tests;
#[cfg(feature = "arrow")]
pub(super) mod starts;

pub use cache_info::CacheInfo;
