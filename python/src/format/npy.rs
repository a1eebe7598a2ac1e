//! `.npy` files.

use std::path::PathBuf;

use pyo3::prelude::*;
use sluicegate::Npy;

use crate::dataset::Dataset;
use crate::detach::opening;

/// Opens the `.npy` files at `paths`, memory-mapped and concatenated.
#[pyfunction]
pub(crate) fn npy_dataset(py: Python<'_>, name: String, paths: Vec<PathBuf>) -> PyResult<Dataset> {
    if let [path] = &paths[..] {
        return Dataset::wrap(py, Ok(opening(py, || Npy::open(name, path))?));
    }
    let npy = opening(py, || Npy::open_all(name, &paths))?;
    Dataset::wrap(py, Ok(npy))
}
