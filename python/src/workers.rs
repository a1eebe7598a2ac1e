//! `Workers`: the consumer's side of the memory that it shares with its worker processes.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use sluicegate::internal::{Answer, AnswerWait, BatchNumber, EventWoken, Lease, Outcome, PlacedField, Pool, SlotCopy};

use super::bytes_ahead::{BytesAhead, Held};
use super::convert::task_kind;
use super::detach::detach;
use super::memory::{descriptors, pinned_leases};
use super::pinned_copy::PinnedCopy;
use super::stack::Kinds;
use super::worker_end::WorkerEnd;

/// The longest sleep between two checks for Ctrl-C. A signal wakes the sleeper, except one that arrives just before it
/// sleeps.
pub(super) const SIGNAL_INTERVAL: Duration = Duration::from_secs(1);

/// What `receive` returns when other code has closed a descriptor.
const CLOSED: isize = -2;

/// A batch that was not copied.
type Unpinned = (Lease, Vec<PlacedField>);

/// Shared memory, and the requests in flight. Thread-safe: others may send requests while one thread waits for answers.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Workers {
    workers: Mutex<sluicegate::internal::Workers>,
    /// For the thread that waits for answers; other threads use `workers` meanwhile.
    wait: Mutex<AnswerWait>,
    under_way: usize,
    kinds: Py<Kinds>,
    /// Allocates pinned blocks, if batches are to be copied to them.
    allocate: Mutex<Option<Py<PyAny>>>,
    /// The thread that copies them.
    pool: Pool,
}

#[pymethods]
impl Workers {
    /// Returns memory for `workers` workers with up to `under_way` requests each; `kinds` makes tensors from what they
    /// write, and answers are counted in `bytes_ahead`.
    #[new]
    fn new(
        py: Python<'_>,
        workers: usize,
        under_way: usize,
        free_slots: usize,
        kinds: Py<Kinds>,
        bytes_ahead: &BytesAhead,
    ) -> PyResult<Self> {
        if workers == 0 {
            return Err(PyValueError::new_err("workers: expected at least 1"));
        }
        let mut workers = detach(py, || sluicegate::internal::Workers::new(workers, under_way, free_slots))?;
        workers.count_in(Arc::clone(&bytes_ahead.0));
        let wait = Mutex::new(workers.answer_wait());
        let workers = Mutex::new(workers);
        Ok(Self { workers, wait, under_way, kinds, allocate: Mutex::default(), pool: Pool::new(1) })
    }

    /// Returns the numbers from which a worker derives the layout.
    #[getter]
    fn layout(&self, py: Python<'_>) -> PyResult<(usize, usize, usize)> {
        detach(py, || Ok(self.lock().layout()))
    }

    /// Returns the descriptors that a worker needs: those of the memory, and of the consumer's doorbell.
    #[getter]
    fn descriptors(&self, py: Python<'_>) -> PyResult<(RawFd, RawFd)> {
        detach(py, || {
            let workers = self.lock();
            let (memory, bell) = workers.descriptors();
            Ok((memory.as_raw_fd(), bell.as_raw_fd()))
        })
    }

    /// Returns the end of `worker`, in a process that was forked from this one.
    fn end(&self, py: Python<'_>, worker: usize) -> PyResult<WorkerEnd> {
        let end = detach(py, || self.lock().end(worker))?;
        Ok(WorkerEnd::from_core(end, self.kinds.clone_ref(py)))
    }

    /// Makes a separate thread copy batches received from now on to pinned blocks from `allocate`; None stops that.
    #[pyo3(signature = (allocate))]
    fn pin(&self, allocate: Option<Py<PyAny>>) {
        let before = std::mem::replace(&mut *self.allocate(), allocate);
        drop(before);
    }

    /// Prepares the memory for new processes, whose answers `bytes_ahead` counts; the previous ones must have ended.
    fn renew(&self, py: Python<'_>, bytes_ahead: &BytesAhead) -> PyResult<()> {
        detach(py, || {
            let mut workers = self.lock();
            workers.renew();
            workers.count_in(Arc::clone(&bytes_ahead.0));
            Ok(())
        })
    }

    /// Discards what was not received; the processes must have ended.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || {
            self.lock().forget();
            Ok(())
        })
    }

    /// Counts the answers that have arrived.
    fn listen(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || self.lock().listen())
    }

    /// Sends a task ("fetch", "resume", or "stop") with a payload to `worker`. Returns immediately.
    #[pyo3(signature = (worker, kind, epoch, batch_in_epoch, payload=None))]
    fn send(
        &self,
        py: Python<'_>,
        worker: usize,
        #[pyo3(from_py_with = task_kind)] kind: sluicegate::internal::TaskKind,
        epoch: u64,
        batch_in_epoch: u64,
        payload: Option<&[u8]>,
    ) -> PyResult<()> {
        detach(py, || {
            self.lock().send(worker, kind, BatchNumber { epoch, batch_in_epoch }, payload.unwrap_or_default())
        })
    }

    /// Tells all workers to stop after their current task.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || {
            self.lock().stop();
            Ok(())
        })
    }

    /// Waits up to `timeout` seconds (None: forever) for an answer, while the processes with the given descriptors
    /// (pidfds) live, and passes it to `hear`: (worker, epoch, batch in epoch, outcome, tensors, envelope, its count).
    /// Then returns -1; on timeout None; without answers, the position in `processes` of one that has ended; -2 if
    /// other code has closed one of the descriptors.
    fn receive(
        &self,
        py: Python<'_>,
        processes: Vec<RawFd>,
        timeout: Option<f64>,
        hear: &Bound<'_, PyAny>,
    ) -> PyResult<Option<isize>> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut woken = EventWoken::Work;
        loop {
            // After every wait, whatever ended it: answers that a process sent before it ended come first.
            if let Some(answer) = detach(py, || self.lock().take())? {
                return self.hand_over(py, answer, hear).map(|()| Some(-1));
            }
            match woken {
                EventWoken::Died(place) => return Ok(Some(place as isize)),
                EventWoken::Closed => return Ok(Some(CLOSED)),
                EventWoken::Work | EventWoken::TimedOut | EventWoken::Interrupted => py.check_signals()?,
            }
            // Checked here in case every wait is interrupted.
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let patience = left.map_or(SIGNAL_INTERVAL, |left| left.min(SIGNAL_INTERVAL));
            woken = detach(py, || {
                let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(wait.wait(&descriptors(&processes), Some(patience)))
            })?;
        }
    }

    /// Returns when `worker` started its current batch, in nanoseconds of the monotonic clock; 0 if it is waiting.
    fn busy_since(&self, py: Python<'_>, worker: usize) -> PyResult<u64> {
        detach(py, || Ok(self.lock().busy_since(worker)))
    }

    /// Returns where in the memory the Python stack of `worker` is written: offset and size in bytes.
    fn call_stack(&self, py: Python<'_>, worker: usize) -> PyResult<(usize, usize)> {
        let stack = detach(py, || Ok(self.lock().call_stack(worker)))?;
        Ok((stack.start, stack.len()))
    }

    /// Returns what `worker` wrote about its Python stack.
    fn stack_of<'py>(&self, py: Python<'py>, worker: usize) -> PyResult<Bound<'py, PyBytes>> {
        let stack = detach(py, || Ok(self.lock().stack_of(worker)))?;
        Ok(PyBytes::new(py, &stack))
    }

    /// Returns how many requests per worker may be in flight.
    #[getter]
    fn under_way(&self) -> usize {
        self.under_way
    }

    /// Returns the memory that batches occupy in bytes, including batches that the user keeps.
    #[getter]
    fn held_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        detach(py, || Ok(self.lock().held_bytes()))
    }
}

impl Workers {
    /// Locks the workers when it is this thread's turn, maybe after a long wait: to be called without the GIL.
    fn lock(&self) -> MutexGuard<'_, sluicegate::internal::Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.allocate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to copy the fields to pinned blocks. Returns the batch unchanged if there is nothing to copy, or no such
    /// memory is available, which torch will report when asked to pin the batch.
    fn pinned_copy(
        &self,
        py: Python<'_>,
        lease: Lease,
        fields: Vec<PlacedField>,
    ) -> PyResult<Result<PinnedCopy, Unpinned>> {
        let allocate = self.allocate().as_ref().map(|allocate| allocate.clone_ref(py));
        let Some(allocate) = allocate.filter(|_| !fields.is_empty()) else { return Ok(Err((lease, fields))) };
        let bytes = |field: &PlacedField| field.shape.iter().product::<usize>() * field.dtype.bytes();
        let Ok(blocks) = pinned_leases(allocate.bind(py), fields.iter().map(bytes).collect()) else {
            return Ok(Err((lease, fields)));
        };
        let ranges = fields.iter().map(|field| field.offset..field.offset + bytes(field));
        let parts = ranges.zip(blocks).collect();
        let copy = detach(py, || SlotCopy::begin(&self.pool, lease, parts))?;
        Ok(Ok(PinnedCopy::new(copy, fields, self.kinds.clone_ref(py))))
    }

    /// Passes an answer to `hear`, with its tensors: on one lease, or being copied to pinned blocks.
    fn hand_over(&self, py: Python<'_>, answer: Answer, hear: &Bound<'_, PyAny>) -> PyResult<()> {
        let Answer { worker, number, outcome, lease, fields, envelope, held } = answer;
        let outcome = match outcome {
            Outcome::Batch => "batch",
            Outcome::Failed => "failed",
            Outcome::Ended => "ended",
        };
        let envelope = PyBytes::new(py, &lease.bytes()[envelope]);
        let tensors = match self.pinned_copy(py, lease, fields)? {
            Ok(copy) => Bound::new(py, copy)?.into_any(),
            Err((lease, fields)) => {
                let (lease, kinds) = (Arc::new(lease), self.kinds.get());
                let tensor = |field: &PlacedField| kinds.tensor(py, &lease, field.offset, (field.dtype, &field.shape));
                PyList::new(py, fields.iter().map(tensor).collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
        };
        let held = held.map(Held);
        let answer = (worker, number.epoch, number.batch_in_epoch, outcome, tensors, envelope, held);
        // One argument, for functions in C: a signal's exception can't occur between taking and keeping an answer.
        hear.call1((answer,)).map(drop)
    }
}
