//! MDS folders.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::Mds;

use super::typed_field::content_of;
use crate::block_cache::BlockCache;
use crate::dataset::{Dataset, whole_sizes};
use crate::detach::opening;

/// Opens the columns `fields`, or all, of the MDS folder `folder`, caching `cache_bytes` bytes of unpacked shards.
/// Returns the dataset, what each column holds, the number of samples in each shard, the cache, and the broken samples,
/// which only `leave_out` allows and `index_folder` keeps.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple for Python")]
pub(crate) fn mds_dataset(
    py: Python<'_>,
    folder: PathBuf,
    fields: Option<Vec<String>>,
    cache_bytes: usize,
    index_folder: Option<PathBuf>,
    leave_out: bool,
) -> PyResult<(Dataset, Vec<&'static str>, Vec<usize>, BlockCache, Vec<String>)> {
    let contents = |samples: &Mds| samples.fields().iter().map(content_of).collect();
    if leave_out {
        let samples = opening(py, || {
            let samples = Mds::open_whole(folder, fields.as_deref(), index_folder)?;
            Ok(samples.map(|samples| samples.with_cache_bytes(cache_bytes)))
        })?;
        let all = samples.dataset();
        let (contents, sizes) = (contents(all), whole_sizes(&samples, all.block_sizes()));
        let (samples, cache, damages) = Dataset::whole_blocks(samples, Mds::cache_info);
        return Ok((samples, contents, sizes, cache, damages));
    }
    let samples = opening(py, || Ok(Mds::open(folder, fields.as_deref())?.with_cache_bytes(cache_bytes)))?;
    let (contents, sizes, samples) = (contents(&samples), samples.block_sizes(), Arc::new(samples));
    let cache = BlockCache::of(&samples, Mds::cache_info);
    Ok((Dataset(samples), contents, sizes, cache, Vec::new()))
}
