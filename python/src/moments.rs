//! Exact sums of the elements of a dataset.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::detach::detach;
use super::error::to_python;
use super::memory::ForeignArray;

/// Number of bytes of an array to copy at a time.
const PIECE_BYTES: usize = 1 << 16;

/// Exact sums of elements, and their extremes. Threads take turns.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Moments(Mutex<sluicegate::internal::Moments>);

#[pymethods]
impl Moments {
    /// Returns the sums of no elements, or those with this state.
    #[new]
    #[pyo3(signature = (state = None))]
    fn new(py: Python<'_>, state: Option<&[u8]>) -> PyResult<Self> {
        let moments =
            state.map_or_else(|| Ok(sluicegate::internal::Moments::new()), sluicegate::internal::Moments::restore);
        Ok(Self(Mutex::new(moments.map_err(|error| to_python(py, error))?)))
    }

    /// Adds the elements of an array: (name, dtype, address, shape, strides in bytes, owner).
    fn add(&self, py: Python<'_>, array: ForeignArray) -> PyResult<()> {
        let (field, array) = array.into_field().map_err(|error| to_python(py, error))?;
        detach(py, || {
            let mut moments = self.lock();
            let rows = (PIECE_BYTES / array.bytes_per_row().max(1)).max(1);
            let mut piece = Vec::new();
            for start in (0..array.len()).step_by(rows) {
                let end = (start + rows).min(array.len());
                piece.resize((end - start) * array.bytes_per_row(), 0);
                array.copy_range(start..end, &mut piece)?;
                moments.add(field.dtype(), &piece)?;
            }
            Ok(())
        })
    }

    /// Adds the elements counted in `other`.
    fn merge(&self, other: &Self) {
        let other = other.lock().clone();
        self.lock().merge(&other);
    }

    /// Returns the complete state as bytes.
    fn state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock().state())
    }

    /// Returns the number of elements that are not NaN.
    #[getter]
    fn count(&self) -> u64 {
        self.lock().count()
    }

    /// Returns the number of elements that are NaN.
    #[getter]
    fn missing(&self) -> u64 {
        self.lock().missing()
    }

    /// Returns the numbers of elements that are negative infinity and positive infinity.
    #[getter]
    fn infinite(&self) -> (u64, u64) {
        self.lock().infinite().into()
    }

    /// Returns the smallest element; infinity if there is none.
    #[getter]
    fn min(&self) -> f64 {
        self.lock().min()
    }

    /// Returns the largest element; negative infinity if there is none.
    #[getter]
    fn max(&self) -> f64 {
        self.lock().max()
    }

    /// Returns the sum of the finite elements in units of 2^-1074: a little-endian signed integer.
    #[getter]
    fn sum<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock().sum())
    }

    /// Returns the sum of the squares of the finite elements in units of 2^-2148: a little-endian signed integer.
    #[getter]
    fn squares<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock().squares())
    }
}

impl Moments {
    fn lock(&self) -> std::sync::MutexGuard<'_, sluicegate::internal::Moments> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
