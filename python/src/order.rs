//! Orders and batches of epochs, and the samplers that make them.

use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::detach::{detach, detach_long};

/// A sampler of the core. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Sampler(pub(super) Arc<dyn sluicegate::Sampler>);

#[pymethods]
impl Sampler {
    /// Returns a text that identifies the sampler.
    fn identity(&self, py: Python<'_>) -> PyResult<String> {
        detach_long(py, "preparing an epoch", || Ok(self.0.identity()))
    }

    /// Returns the order of `epoch`.
    fn order(&self, py: Python<'_>, epoch: u64) -> PyResult<Order> {
        detach_long(py, "preparing an epoch", || self.0.order(epoch)).map(|order| Order(order.into()))
    }
}

/// A sampler of the core that makes batches. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct BatchingSampler(pub(super) Arc<dyn sluicegate::BatchingSampler>);

#[pymethods]
impl BatchingSampler {
    /// Returns a text that identifies the sampler.
    fn identity(&self, py: Python<'_>) -> PyResult<String> {
        detach_long(py, "preparing an epoch", || Ok(self.0.identity()))
    }

    /// Returns the batches of `epoch`.
    fn batches(&self, py: Python<'_>, epoch: u64) -> PyResult<Batches> {
        detach_long(py, "preparing an epoch", || self.0.batches(epoch)).map(|batches| Batches(batches.into()))
    }
}

/// The order of one epoch.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Order(pub(super) Arc<dyn sluicegate::EpochOrder>);

#[pymethods]
impl Order {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Returns the index at `position`.
    fn index_at(&self, position: usize) -> PyResult<usize> {
        let len = self.0.len();
        if position >= len {
            return Err(PyIndexError::new_err(format!(
                "position {position} is out of range for an order of {len} indices"
            )));
        }
        Ok(self.0.index_at(position))
    }

    /// Returns the indices from position `start` to `stop`, as int64 in native byte order.
    fn indices<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyBytes>> {
        let len = self.0.len();
        if start > stop || stop > len {
            let message = format!("positions {start} to {stop} are out of range for an order of {len} indices");
            return Err(PyIndexError::new_err(message));
        }
        let indices = detach(py, || {
            let mut indices = vec![0; stop - start];
            self.0.indices(start, &mut indices);
            Ok(indices)
        })?;
        int64_bytes(py, &indices)
    }
}

/// The batches of one epoch.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Batches(pub(super) Arc<dyn sluicegate::EpochBatches>);

#[pymethods]
impl Batches {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Returns the indices of batch `batch_in_epoch`, as int64 in native byte order.
    fn indices<'py>(&self, py: Python<'py>, batch_in_epoch: usize) -> PyResult<Bound<'py, PyBytes>> {
        let len = self.0.len();
        if batch_in_epoch >= len {
            return Err(PyIndexError::new_err(format!(
                "batch {batch_in_epoch} is out of range for an epoch of {len} batches"
            )));
        }
        let indices = detach(py, || {
            let mut indices = Vec::new();
            self.0.indices(batch_in_epoch, &mut indices);
            Ok(indices)
        })?;
        int64_bytes(py, &indices)
    }
}

/// Returns indices as int64 in native byte order, which `numpy.frombuffer` uses without conversion.
pub(super) fn int64_bytes<'py>(py: Python<'py>, indices: &[usize]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, indices.len() * size_of::<i64>(), |bytes| {
        for (into, &index) in bytes.chunks_exact_mut(size_of::<i64>()).zip(indices) {
            into.copy_from_slice(&(index as i64).to_ne_bytes());
        }
        Ok(())
    })
}
