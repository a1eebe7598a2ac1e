//! Safetensors files.

use std::path::PathBuf;

use pyo3::prelude::*;
use sluicegate::Safetensors;

use crate::dataset::Dataset;
use crate::detach::opening;

/// Opens the tensors `fields` (default: all, by name) of the safetensors files at `paths`.
#[pyfunction]
pub(crate) fn safetensors_dataset(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    fields: Option<Vec<String>>,
) -> PyResult<Dataset> {
    let rows = opening(py, || Safetensors::open_all(&paths, fields.as_deref()))?;
    Dataset::wrap(py, Ok(rows))
}
