//! `Engine`: the resources that a loader keeps from one epoch to the next.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::{Lease, Pool, Slab};
use sluicegate::{BatchField, DType};

use super::bytes_ahead::BytesAhead;
use super::detach::detach;
use super::error::to_python;
use super::memory::{capsule, pinned_leases};
use super::stack::{Kinds, Rows};

/// The slots and the threads of one loader.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Engine {
    pub(super) slab: Arc<Slab>,
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) bytes_ahead: Arc<sluicegate::internal::BytesAhead>,
    /// Permutations are as long as the dataset and live as long as an epoch. They are separate from the batches, so
    /// that neither takes the other's free slots.
    permutations: Slab,
}

#[pymethods]
impl Engine {
    /// Returns an engine with `threads` threads (0: the calling thread fetches), up to `free_slots` free slots kept for
    /// reuse, and up to `prefetch_bytes` bytes of batches ahead (None: a quarter of what this process may use).
    #[new]
    #[pyo3(signature = (threads, free_slots, prefetch_bytes=None))]
    fn new(threads: usize, free_slots: usize, prefetch_bytes: Option<NonZeroUsize>) -> Self {
        let bytes_ahead = Arc::new(sluicegate::internal::BytesAhead::new(prefetch_bytes));
        let slab = Slab::new(free_slots);
        // Without threads nothing is fetched ahead, so free memory needs no bound.
        let slab = if threads > 0 { slab.with_free_bytes(bytes_ahead.bound()) } else { slab };
        Self {
            slab: Arc::new(slab),
            bytes_ahead,
            pool: (threads > 0).then(|| Arc::new(Pool::new(threads))),
            permutations: Slab::new(1),
        }
    }

    /// Returns room for `len` indices: a capsule of an int64 array with unspecified contents. It reuses the memory of
    /// an earlier epoch, which a general allocator does not guarantee for blocks of this size.
    fn index_capsule<'py>(&self, py: Python<'py>, len: usize) -> PyResult<Bound<'py, PyAny>> {
        let lease = detach(py, || self.permutations.lease(len.saturating_mul(size_of::<i64>())))?;
        capsule(py, &Arc::new(lease), 0, (DType::Int64, &[len]))
    }

    /// Returns the tensor that torch's default collate makes from `samples`, in a slot, or in a pinned block from
    /// `allocate`; None if torch must make it itself, possibly to raise its own error.
    #[pyo3(signature = (kinds, samples, allocate=None))]
    fn stack<'py>(
        &self,
        py: Python<'py>,
        kinds: &Kinds,
        samples: &Bound<'py, PyAny>,
        allocate: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(rows) = Rows::of(samples, kinds).filter(Rows::stack_in_c_order) else { return Ok(None) };
        let Some(mut lease) = self.lease(rows.bytes(), allocate)? else { return Ok(None) };
        rows.copy_into(py, lease.bytes_mut())?;
        let BatchField { dtype, shape, .. } = rows.field();
        kinds.tensor(py, &Arc::new(lease), 0, (*dtype, shape)).map(Some)
    }

    /// Returns a tensor of data type `dtype` with unspecified contents where `stack` would put it, for a batch whose
    /// samples have not arrived; None if there is no memory for it.
    #[pyo3(signature = (kinds, dtype, shape, allocate=None))]
    fn room<'py>(
        &self,
        py: Python<'py>,
        kinds: &Kinds,
        dtype: &str,
        shape: Vec<usize>,
        allocate: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let dtype: DType = dtype.parse().map_err(|error| to_python(py, error))?;
        let bytes = shape.iter().fold(dtype.bytes(), |bytes, &axis| bytes.saturating_mul(axis));
        let Some(lease) = self.lease(bytes, allocate)? else { return Ok(None) };
        kinds.tensor(py, &Arc::new(lease), 0, (dtype, &shape)).map(Some)
    }

    /// Releases the pinned blocks that were offered for batches and not used.
    fn withdraw(&self) {
        self.slab.withdraw();
    }

    /// Returns the counter of bytes fetched ahead.
    #[getter]
    fn bytes_ahead(&self) -> BytesAhead {
        BytesAhead(Arc::clone(&self.bytes_ahead))
    }

    /// Returns the number of threads.
    #[getter]
    fn threads(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.threads())
    }

    /// Returns the address space of all slots, used and free, in bytes.
    #[getter]
    fn mapped_bytes(&self) -> usize {
        self.slab.mapped_bytes()
    }
}

impl Engine {
    /// Returns `bytes` bytes of a slot, or of a pinned block from `allocate`. Keeps the GIL, which costs less than
    /// releasing it: a thread that holds the slab's lock never waits for the GIL.
    fn lease(&self, bytes: usize, allocate: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Lease>> {
        match allocate {
            Some(allocate) => Ok(pinned_leases(allocate, vec![bytes])?.pop()),
            None => Ok(self.slab.lease(bytes).ok()),
        }
    }
}
