//! `ClassIndex`: which samples belong to which class.

use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::detach::detach_long;
use super::error::to_python;
use super::integers::Integers;
use super::memory::ForeignArray;
use super::order::int64_bytes;

/// An index of the core, which samplers share. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct ClassIndex(pub(super) Arc<sluicegate::ClassIndex>);

#[pymethods]
impl ClassIndex {
    /// Returns the index of samples with these labels: (name, dtype, address, shape, strides in bytes, owner).
    #[new]
    fn new(py: Python<'_>, labels: ForeignArray) -> PyResult<Self> {
        let mut labels = Integers::new("labels", labels).map_err(|error| to_python(py, error))?;
        let index = detach_long(py, "sorting labels", || {
            sluicegate::ClassIndex::read(labels.len(), |start, into| labels.read(start, into))
        })?;
        Ok(Self(Arc::new(index)))
    }

    /// Returns the number of samples.
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Returns the labels that occur, in ascending order: class i is the label at position i.
    #[getter]
    fn classes(&self) -> Vec<i64> {
        self.0.classes().to_vec()
    }

    /// Returns the number of samples of each class.
    #[getter]
    fn counts(&self) -> Vec<usize> {
        (0..self.0.classes().len()).map(|class| self.0.count(class)).collect()
    }

    /// Returns the samples of class `place` in ascending order, as int64 in native byte order.
    fn samples<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyBytes>> {
        let classes = self.0.classes().len();
        if place >= classes {
            return Err(PyIndexError::new_err(format!("class {place} is out of range for {classes} classes")));
        }
        let samples: Vec<usize> = (0..self.0.count(place)).map(|sample| self.0.sample_at(place, sample)).collect();
        int64_bytes(py, &samples)
    }

    /// Returns 64 bits that distinguish these labels from others.
    fn digest(&self, py: Python<'_>) -> PyResult<u64> {
        detach_long(py, "sorting labels", || Ok(self.0.digest()))
    }

    /// Returns the size of the index in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }
}
