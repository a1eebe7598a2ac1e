//! `.npz` files.

use std::path::PathBuf;

use pyo3::prelude::*;
use sluicegate::Npz;

use crate::dataset::Dataset;
use crate::detach::opening;

/// Opens the arrays `fields` (default: all) of the `.npz` files at `paths`.
#[pyfunction]
pub(crate) fn npz_dataset(py: Python<'_>, paths: Vec<PathBuf>, fields: Option<Vec<String>>) -> PyResult<Dataset> {
    let rows = opening(py, || Npz::open_all(&paths, fields.as_deref()))?;
    Dataset::wrap(py, Ok(rows))
}
