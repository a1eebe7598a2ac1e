//! `BlockCache`: the statistics of the cache of a dataset's decoded blocks.

use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::CacheInfo;

/// The cache of a dataset that decodes its data in blocks. It keeps the dataset alive.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct BlockCache(Box<dyn Fn() -> CacheInfo + Send + Sync>);

impl BlockCache {
    /// Returns the cache of `dataset`, whose statistics `info` returns.
    pub(super) fn of<D: Send + Sync + 'static>(
        dataset: &Arc<D>,
        info: impl Fn(&D) -> CacheInfo + Send + Sync + 'static,
    ) -> Self {
        let dataset = Arc::clone(dataset);
        Self(Box::new(move || info(&dataset)))
    }
}

#[pymethods]
impl BlockCache {
    /// Returns (decoded, decoded in part, found, blocks, bytes, limit) for this process.
    fn info(&self) -> (u64, u64, u64, usize, usize, usize) {
        let CacheInfo { decoded, decoded_in_part, found, blocks, bytes, limit } = (self.0)();
        (decoded, decoded_in_part, found, blocks, bytes, limit)
    }
}
