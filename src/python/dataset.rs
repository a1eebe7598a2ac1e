//! `Dataset`: what can be read without Python.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::convert::plain_indices;
use super::detach::detach;
use super::error::to_python;
use super::memory::{ForeignArray, Indices};
use crate::{Concat, InMemory, Npy, Stack, Subset};

/// A dataset of the core. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Dataset(pub(super) Arc<dyn crate::Dataset>);

impl Dataset {
    fn wrap(py: Python<'_>, dataset: crate::Result<impl crate::Dataset + 'static>) -> PyResult<Self> {
        dataset.map(|dataset| Self(Arc::new(dataset))).map_err(|error| to_python(py, error))
    }
}

#[pymethods]
impl Dataset {
    /// Arrays in memory, a field each: (name, dtype, address, shape, strides in bytes, owner).
    #[staticmethod]
    fn in_memory(py: Python<'_>, arrays: Vec<ForeignArray>) -> PyResult<Self> {
        let arrays = arrays.into_iter().map(ForeignArray::into_field).collect::<crate::Result<Vec<_>>>();
        Self::wrap(py, arrays.and_then(InMemory::new))
    }

    /// The `.npy` file at `path`, memory-mapped.
    #[staticmethod]
    fn npy(py: Python<'_>, name: String, path: PathBuf) -> PyResult<Self> {
        let npy = detach(py, || Npy::open(name, path))?;
        Self::wrap(py, Ok(npy))
    }

    /// The samples of `dataset` at `indices`; nothing when one of them is no plain `int` in range.
    #[staticmethod]
    fn subset(py: Python<'_>, dataset: &Self, indices: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let len = dataset.0.len();
        let indices = match indices.cast::<PyList>() {
            Ok(list) => plain_indices(list, len),
            Err(_) => indices.cast::<Indices>()?.get().places(0, usize::MAX, len),
        };
        let Some(indices) = indices else { return Ok(None) };
        Self::wrap(py, Subset::new(Arc::clone(&dataset.0), indices)).map(Some)
    }

    /// One dataset after the other.
    #[staticmethod]
    fn concat(py: Python<'_>, parts: Vec<PyRef<'_, Self>>) -> PyResult<Self> {
        Self::wrap(py, Concat::new(parts.iter().map(|part| Arc::clone(&part.0)).collect()))
    }

    /// Datasets side by side.
    #[staticmethod]
    fn stack(py: Python<'_>, parts: Vec<(String, PyRef<'_, Self>)>) -> PyResult<Self> {
        Self::wrap(py, Stack::new(parts.into_iter().map(|(name, part)| (name, Arc::clone(&part.0))).collect()))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The fields of a sample: (name, dtype, shape).
    #[getter]
    fn fields(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        let fields = self.0.schema().fields().iter();
        fields.map(|field| (field.name().to_owned(), field.dtype().name(), field.shape().to_vec())).collect()
    }

    /// Whether batches of both can be concatenated: equal data types and shapes, field by field.
    fn stacks_with(&self, other: &Self) -> bool {
        self.0.schema().stacks_with(other.0.schema())
    }
}
