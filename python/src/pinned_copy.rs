//! `PinnedCopy`: the tensors of a batch from a worker process, being copied to pinned memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyList;
use sluicegate::internal::{Lease, PlacedField, SlotCopy};

use super::detach::detach;
use super::stack::Kinds;

/// How long the consumer sleeps between two checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Tensors that a thread copies, each to a separate block.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct PinnedCopy {
    copy: Mutex<SlotCopy>,
    fields: Vec<PlacedField>,
    kinds: Py<Kinds>,
}

impl PinnedCopy {
    pub(super) fn new(copy: SlotCopy, fields: Vec<PlacedField>, kinds: Py<Kinds>) -> Self {
        Self { copy: Mutex::new(copy), fields, kinds }
    }

    /// To be called without the GIL: a thread that waits for the copy holds this lock.
    fn copy(&self) -> MutexGuard<'_, SlotCopy> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PinnedCopy {
    /// True if `tensors` would not wait.
    #[getter]
    fn is_done(&self, py: Python<'_>) -> PyResult<bool> {
        detach(py, || Ok(self.copy().is_done()))
    }

    /// Waits for the tensors, and returns them, but only once.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let leases = loop {
            match detach(py, || self.copy().wait(SIGNAL_INTERVAL))? {
                Some(leases) => break leases,
                None => py.check_signals()?,
            }
        };
        let tensor = |(lease, field): (Lease, &PlacedField)| {
            self.kinds.get().tensor(py, &Arc::new(lease), 0, (field.dtype, &field.shape))
        };
        PyList::new(py, leases.into_iter().zip(&self.fields).map(tensor).collect::<PyResult<Vec<_>>>()?)
    }
}
