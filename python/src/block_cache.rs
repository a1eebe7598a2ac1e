//! `BlockCache`: what the cache of a dataset's decoded blocks has done.

use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::CacheInfo;

/// The cache of a dataset that decodes what it reads by blocks. It holds the dataset.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct BlockCache(Box<dyn Fn() -> CacheInfo + Send + Sync>);

impl BlockCache {
    /// That of `dataset`, as `info` tells.
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
    /// (decoded, decoded in part, found, blocks, bytes, limit) in this process.
    fn info(&self) -> (u64, u64, u64, usize, usize, usize) {
        let CacheInfo { decoded, decoded_in_part, found, blocks, bytes, limit } = (self.0)();
        (decoded, decoded_in_part, found, blocks, bytes, limit)
    }
}
