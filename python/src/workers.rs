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

/// The longest sleep between two looks for Ctrl-C. A signal wakes the sleeper, except one that comes in the moment
/// before it sleeps.
pub(super) const SIGNAL_INTERVAL: Duration = Duration::from_secs(1);

/// What `receive` returns when other code has closed a descriptor.
const CLOSED: isize = -2;

/// A batch that was not copied.
type Unpinned = (Lease, Vec<PlacedField>);

/// Shared memory, and what is under way in it. Thread-safe: while one thread waits for answers, others may send requests.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Workers {
    workers: Mutex<sluicegate::internal::Workers>,
    /// Of the thread that waits for answers: the others use `workers` meanwhile.
    wait: Mutex<AnswerWait>,
    under_way: usize,
    kinds: Py<Kinds>,
    /// What gives pinned blocks, where batches are to be copied to such.
    allocate: Mutex<Option<Py<PyAny>>>,
    /// The thread that copies them.
    pool: Pool,
}

#[pymethods]
impl Workers {
    /// For `workers` workers with up to `under_way` requests each; `kinds` makes tensors of what they
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

    /// What a worker has to be told to find its place.
    #[getter]
    fn layout(&self, py: Python<'_>) -> PyResult<(usize, usize, usize)> {
        detach(py, || Ok(self.lock().layout()))
    }

    /// The descriptors that a worker needs: of the memory, and of the consumer's doorbell.
    #[getter]
    fn descriptors(&self, py: Python<'_>) -> PyResult<(RawFd, RawFd)> {
        detach(py, || {
            let workers = self.lock();
            let (memory, bell) = workers.descriptors();
            Ok((memory.as_raw_fd(), bell.as_raw_fd()))
        })
    }

    /// The end of `worker`, in a process that was forked from this one.
    fn end(&self, py: Python<'_>, worker: usize) -> PyResult<WorkerEnd> {
        let end = detach(py, || self.lock().end(worker))?;
        Ok(WorkerEnd::new_over(end, self.kinds.clone_ref(py)))
    }

    /// Has what is received from now on copied to pinned blocks that `allocate` gives, on a thread of its own; None: not any
    /// more.
    #[pyo3(signature = (allocate))]
    fn pin(&self, allocate: Option<Py<PyAny>>) {
        let before = std::mem::replace(&mut *self.allocate(), allocate);
        drop(before);
    }

    /// Makes the memory ready for new processes, whose answers are counted in `bytes_ahead`; those before them have ended.
    fn renew(&self, py: Python<'_>, bytes_ahead: &BytesAhead) -> PyResult<()> {
        detach(py, || {
            let mut workers = self.lock();
            workers.renew();
            workers.count_in(Arc::clone(&bytes_ahead.0));
            Ok(())
        })
    }

    /// Lets go of what was not received; the processes have ended.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || {
            self.lock().forget();
            Ok(())
        })
    }

    /// Counts the answers that are there.
    fn listen(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || self.lock().listen())
    }

    /// Asks `worker` to do a task ("fetch", "resume" or "stop") with a payload. Returns at once.
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

    /// Tells all workers to stop after what they are doing.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || {
            self.lock().stop();
            Ok(())
        })
    }

    /// Waits up to `timeout` seconds (None: forever) for an answer, while the processes live whose descriptors (pidfds)
    /// are given, and passes it to `hear`: (worker, epoch, batch in epoch, outcome, tensors, envelope, what counts it).
    /// -1 then; None when the time is over; the place in `processes` of one that has ended, when there are no answers;
    /// -2 when other code has closed one of the descriptors.
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
            // After every wait, whatever ended it: what a process answered before it ended comes first.
            if let Some(answer) = detach(py, || self.lock().take())? {
                return self.hand_over(py, answer, hear).map(|()| Some(-1));
            }
            match woken {
                EventWoken::Died(place) => return Ok(Some(place as isize)),
                EventWoken::Closed => return Ok(Some(CLOSED)),
                EventWoken::Work | EventWoken::TimedOut | EventWoken::Interrupted => py.check_signals()?,
            }
            // Also where every wait is interrupted.
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

    /// Since when `worker` has been busy with one batch, in nanoseconds of the monotonic clock; 0 when it waits.
    fn busy_since(&self, py: Python<'_>, worker: usize) -> PyResult<u64> {
        detach(py, || Ok(self.lock().busy_since(worker)))
    }

    /// Where in the memory the Python stack of `worker` is looked for: offset and size in bytes.
    fn call_stack(&self, py: Python<'_>, worker: usize) -> PyResult<(usize, usize)> {
        let stack = detach(py, || Ok(self.lock().call_stack(worker)))?;
        Ok((stack.start, stack.len()))
    }

    /// What `worker` wrote about its Python stack.
    fn stack_of<'py>(&self, py: Python<'py>, worker: usize) -> PyResult<Bound<'py, PyBytes>> {
        let stack = detach(py, || Ok(self.lock().stack_of(worker)))?;
        Ok(PyBytes::new(py, &stack))
    }

    /// The number of requests per worker that may be under way.
    #[getter]
    fn under_way(&self) -> usize {
        self.under_way
    }

    /// The memory that batches take, those that are kept included, in bytes.
    #[getter]
    fn held_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        detach(py, || Ok(self.lock().held_bytes()))
    }
}

impl Workers {
    /// This thread's turn, which may come after a long wait: to be asked for without the GIL.
    fn lock(&self) -> MutexGuard<'_, sluicegate::internal::Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.allocate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to copy the fields to pinned blocks; the same again where there is nothing to copy, or no such memory is to be
    /// had, which torch will have to say when it is asked to pin them.
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

    /// Makes tensors of the fields, all on one lease.
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
        // One argument, for functions written in C: a signal's exception can't come between taking an answer and keeping it.
        hear.call1((answer,)).map(drop)
    }
}
