//! Arrow files, and Arrow tables that Python holds.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sluicegate::Arrow;

use super::arrow_table::{self, ColumnForm};
use super::columnar::{ColumnarArguments, kind_name, structure};
use crate::block_cache::BlockCache;
use crate::dataset::{Dataset, whole_sizes};
use crate::detach::opening;

/// Opens the rows of the Arrow files at `paths`, caching `cache_bytes` bytes of decoded batches. Returns the dataset,
/// the nesting of its fields, the kind of each, the number of rows in each batch, the cache, and what was left out.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple for Python")]
pub(crate) fn arrow_dataset<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    columns: ColumnarArguments,
    cache_bytes: usize,
    index_folder: Option<PathBuf>,
    leave_out: bool,
) -> PyResult<(Dataset, Bound<'py, PyAny>, Vec<String>, Vec<usize>, BlockCache, Vec<String>)> {
    let kinds = |rows: &Arrow| rows.kinds().iter().map(kind_name).collect();
    if leave_out {
        let rows = opening(py, || Arrow::open_whole(paths, &columns.options()?, cache_bytes, index_folder))?;
        let (kinds, structure) = (kinds(rows.dataset()), structure(py, rows.dataset().nesting())?);
        let sizes = whole_sizes(&rows, rows.dataset().block_sizes());
        let (rows, cache, damages) = Dataset::whole_blocks(rows, Arrow::cache_info);
        return Ok((rows, structure, kinds, sizes, cache, damages));
    }
    let rows = opening(py, || Arrow::open(paths, &columns.options()?, cache_bytes))?;
    let (structure, kinds, sizes) = (structure(py, rows.nesting())?, kinds(&rows), rows.block_sizes().collect());
    let rows = Arc::new(rows);
    let cache = BlockCache::of(&rows, Arrow::cache_info);
    Ok((Dataset(rows), structure, kinds, sizes, cache, Vec::new()))
}

/// Returns the `columns` of the table in the capsule `stream`, in data types that torch supports; None if it has nulls,
/// lists of unequal lengths, or columns of other types.
#[pyfunction]
pub(crate) fn arrow_table_dataset(
    py: Python<'_>,
    stream: &Bound<'_, PyCapsule>,
    columns: Vec<ColumnForm>,
) -> PyResult<Option<Dataset>> {
    Ok(arrow_table::read(py, stream, columns)?.map(|table| Dataset(Arc::new(table))))
}
