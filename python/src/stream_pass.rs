//! `StreamPass`: one pass over a stream, by one thread for several workers.

use pyo3::prelude::*;

use super::detach::detach;
use super::error::to_python;

/// One pass over a stream for all workers of a rank: see the core's type.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct StreamPass(sluicegate::internal::StreamPass);

impl StreamPass {
    pub(super) fn core(&self) -> &sluicegate::internal::StreamPass {
        &self.0
    }
}

#[pymethods]
impl StreamPass {
    #[new]
    fn new(py: Python<'_>, workers: usize) -> PyResult<Self> {
        sluicegate::internal::StreamPass::new(workers).map(Self).map_err(|error| to_python(py, error))
    }

    /// Records that a worker has joined or will not join.
    fn arrive(&self, py: Python<'_>, worker: usize) -> PyResult<()> {
        detach(py, || {
            self.0.arrive(worker);
            Ok(())
        })
    }

    /// Stops reading: readers that wait for samples soon get an error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || {
            self.0.close();
            Ok(())
        })
    }
}
