//! `WorkerEnd`: a worker process's side of the memory that it shares with the consumer.

use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sluicegate::DType;
use sluicegate::internal::{Outcome, Task, TaskKind};

use super::detach::detach;
use super::error::{to_python, unknown};
use super::memory::{descriptors, making_capsule};
use super::stack::{Kinds, Rows};
use super::workers::SIGNAL_INTERVAL;

/// A worker that has waited this long, as between two epochs, returns the memory of its last batch to the system.
/// Getting it back costs milliseconds, which a consumer that slow does not notice.
const RETURNS_MEMORY_AFTER: Duration = Duration::from_secs(1);

/// A worker's access to its requests and to the memory for its batches. For one thread at a time.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct WorkerEnd {
    end: Mutex<sluicegate::internal::WorkerEnd>,
    kinds: Py<Kinds>,
}

#[pymethods]
impl WorkerEnd {
    /// Opens the end of `worker`, with the layout and descriptors from `Workers`; the descriptors are duplicated.
    #[new]
    fn new(
        layout: (usize, usize, usize),
        descriptors: (RawFd, RawFd),
        worker: usize,
        kinds: Py<Kinds>,
    ) -> PyResult<Self> {
        let given = super::memory::descriptors(&[descriptors.0, descriptors.1]);
        let bell = given[1].try_clone_to_owned()?;
        let end = sluicegate::internal::WorkerEnd::open(layout, given[0], bell, worker);
        let end = Python::attach(|py| end.map_err(|error| to_python(py, error)))?;
        Ok(Self { end: Mutex::new(end), kinds })
    }

    /// Ends this process as soon as `process`, a pidfd, ends.
    #[staticmethod]
    fn end_with(py: Python<'_>, process: RawFd) -> PyResult<()> {
        let process = descriptors(&[process])[0].try_clone_to_owned()?;
        detach(py, || sluicegate::internal::end_with(process))
    }

    /// Keeps memory that this process frees for its next samples; a worker that waits returns it. Returns false if
    /// nothing changed: without glibc, or if the environment configures its allocator.
    #[staticmethod]
    fn keep_freed_memory() -> bool {
        sluicegate::internal::keep_freed_memory()
    }

    /// Waits for the next task: (kind, epoch, batch in epoch, payload).
    fn next<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, u64, u64, Bound<'py, PyBytes>)> {
        let (began, mut is_returned) = (Instant::now(), false);
        loop {
            if let Some(task) = detach(py, || self.lock().next(SIGNAL_INTERVAL))? {
                let Task { kind, number, payload } = task;
                let kind = match kind {
                    TaskKind::Fetch => "fetch",
                    TaskKind::Resume => "resume",
                    TaskKind::Stop => "stop",
                };
                return Ok((kind, number.epoch, number.batch_in_epoch, PyBytes::new(py, &payload)));
            }
            py.check_signals()?;
            if !is_returned && began.elapsed() >= RETURNS_MEMORY_AFTER {
                detach(py, || {
                    sluicegate::internal::return_freed_memory();
                    Ok(())
                })?;
                is_returned = true;
            }
        }
    }

    /// Returns the number of tensors in the batch that is being made.
    #[getter]
    fn placed(&self) -> usize {
        self.lock().placed()
    }

    /// Stacks `samples` straight into the batch that is being made. Returns the tensor's number; None if torch must
    /// make it itself.
    fn stack(&self, py: Python<'_>, samples: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let Some(rows) = Rows::of(samples, self.kinds.get()) else { return Ok(None) };
        let field = rows.field();
        let mut end = self.lock();
        let placed =
            end.place(field.dtype, field.shape.clone()).and_then(|number| Ok((number, end.bytes_mut(number)?)));
        let (number, into) = placed.map_err(|error| to_python(py, error))?;
        rows.copy_into(py, into)?;
        Ok(Some(number))
    }

    /// Reserves room for a tensor in the batch being made; returns its number, and a tensor to write its bytes at once.
    fn place<'py>(&self, py: Python<'py>, dtype: &str, shape: Vec<usize>) -> PyResult<(usize, Bound<'py, PyAny>)> {
        let dtype: DType = dtype.parse().map_err(|error| to_python(py, error))?;
        let field = detach(py, || self.lock().place(dtype, shape))?;
        Ok((field, self.tensor(py, field)?))
    }

    /// Returns a tensor over the bytes of tensor `field` of the batch that is being made, to be written at once: they
    /// move when they run out of room.
    fn tensor<'py>(&self, py: Python<'py>, field: usize) -> PyResult<Bound<'py, PyAny>> {
        let mut end = self.lock();
        let (dtype, shape) = end.field(field).map_err(|error| to_python(py, error))?;
        let shape = shape.to_vec();
        let capsule = making_capsule(py, &mut end, field, (dtype, &shape))?;
        drop(end);
        self.kinds.get().of_capsule(capsule, dtype)
    }

    /// Sends the answer: the outcome ("batch", "failed", or "ended"), and the structure around the tensors.
    fn answer(&self, py: Python<'_>, outcome: &str, envelope: &[u8]) -> PyResult<()> {
        let outcome = match outcome {
            "batch" => Outcome::Batch,
            "failed" => Outcome::Failed,
            "ended" => Outcome::Ended,
            other => return Err(to_python(py, unknown("outcome", other))),
        };
        detach(py, || self.lock().answer(outcome, envelope))
    }
}

impl WorkerEnd {
    pub(super) fn from_core(end: sluicegate::internal::WorkerEnd, kinds: Py<Kinds>) -> Self {
        Self { end: Mutex::new(end), kinds }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, sluicegate::internal::WorkerEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
