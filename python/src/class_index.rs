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

/// An index of the core. Samplers share it, threads may.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct ClassIndex(pub(super) Arc<sluicegate::ClassIndex>);

#[pymethods]
impl ClassIndex {
    /// The index of samples with these labels: (name, dtype, address, shape, strides in bytes, owner).
    #[new]
    fn new(py: Python<'_>, labels: ForeignArray) -> PyResult<Self> {
        let mut labels = Integers::new("labels", labels).map_err(|error| to_python(py, error))?;
        let index = detach_long(py, "sorting labels", || {
            sluicegate::ClassIndex::read(labels.len(), |start, into| labels.read(start, into))
        })?;
        Ok(Self(Arc::new(index)))
    }

    /// The number of samples.
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The labels that occur, ascending: what is at place i of this list is class i.
    #[getter]
    fn classes(&self) -> Vec<i64> {
        self.0.classes().to_vec()
    }

    /// The number of samples of each class.
    #[getter]
    fn counts(&self) -> Vec<usize> {
        (0..self.0.classes().len()).map(|class| self.0.count(class)).collect()
    }

    /// The samples of the class at `place`, ascending, as int64 in the machine's byte order.
    fn samples<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyBytes>> {
        let classes = self.0.classes().len();
        if place >= classes {
            return Err(PyIndexError::new_err(format!("class {place} of {classes} classes")));
        }
        let samples: Vec<usize> = (0..self.0.count(place)).map(|sample| self.0.sample_at(place, sample)).collect();
        int64_bytes(py, &samples)
    }

    /// 64 bits that tell these labels from others.
    fn digest(&self, py: Python<'_>) -> PyResult<u64> {
        detach_long(py, "sorting labels", || Ok(self.0.digest()))
    }

    /// The memory that the index takes, in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }
}
