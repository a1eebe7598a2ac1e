//! `Plan`: the batches of one rank in one epoch.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sluicegate::internal::ExplicitOrder;
use sluicegate::{EpochPlan, LastBatch, Remainder, Result, Shard};

use super::convert::all_places;
use super::detach::detach;
use super::error::{to_python, unknown};
use super::memory::Indices;
use super::order::{Batches, Order, int64_bytes};
use super::positions::Positions;

/// Up to this many indices of an order are computed with the GIL held: releasing and reacquiring it costs more, and
/// another thread that waits for it gets it only a few microseconds later.
const QUICK: usize = 512;

/// Returns what a shard does when the samples cannot be divided evenly, by name.
pub(super) fn remainder_of(name: &str) -> Result<Remainder> {
    match name {
        "pad" => Ok(Remainder::Pad),
        "drop" => Ok(Remainder::Drop),
        "exact" => Ok(Remainder::Exact),
        other => Err(unknown("remainder", other)),
    }
}

/// The contents of each batch of a rank. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Plan {
    plan: EpochPlan,
    /// Buffer for the indices of a batch on its way to Python. A thread that finds it locked uses a buffer of its own.
    room: Mutex<Vec<usize>>,
    needs_no_detach: bool,
}

#[pymethods]
impl Plan {
    /// Returns the batches in `source`, or, if it is an order of samples, the batches cut from it, for rank `shard[0]`
    /// of `shard[1]`, from global position `start` on.
    #[new]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        batch_size: usize,
        drop_last: bool,
        shard: (usize, usize),
        remainder: &str,
        start: usize,
    ) -> PyResult<Self> {
        let plan = if let Ok(order) = source.cast::<Order>() {
            let last_batch = if drop_last { LastBatch::Drop } else { LastBatch::Keep };
            EpochPlan::of_samples(Arc::clone(&order.get().0), batch_size, last_batch)
                .map_err(|error| to_python(py, error))?
        } else if let Ok(batches) = source.cast::<Batches>() {
            EpochPlan::of_batches(Arc::clone(&batches.get().0))
        } else {
            return Err(PyTypeError::new_err("expected an Order or Batches"));
        };
        let remainder = remainder_of(remainder).map_err(|error| to_python(py, error))?;
        let shard = Shard::new(shard.0, shard.1).map_err(|error| to_python(py, error))?;
        let needs_no_detach = source.is_instance_of::<Order>() && batch_size <= QUICK;
        Ok(Self { plan: plan.shard(shard, remainder).start_at(start), room: Mutex::default(), needs_no_detach })
    }

    fn __len__(&self) -> usize {
        self.plan.len()
    }

    /// Returns the length of the global order, in samples, or in batches if it is an order of batches.
    #[getter]
    fn positions(&self) -> usize {
        self.plan.positions()
    }

    /// Returns the rank that this plan is for.
    #[getter]
    fn rank(&self) -> usize {
        self.plan.rank()
    }

    /// Returns the number of ranks that read the epoch together.
    #[getter]
    fn world_size(&self) -> usize {
        self.plan.world_size()
    }

    /// Returns the plan of `rank` for the same steps.
    fn of_rank(&self, py: Python<'_>, rank: usize) -> PyResult<Self> {
        let plan = self.plan.of_rank(rank).map_err(|error| to_python(py, error))?;
        Ok(Self { plan, room: Mutex::default(), needs_no_detach: self.needs_no_detach })
    }

    /// Returns the position of the ranks in the global order after each has received `batches` batches of this plan.
    fn position_after(&self, batches: usize) -> usize {
        self.plan.position_after(batches)
    }

    /// Returns batch `batch` of this plan: the indices as int64 in native byte order, the position of the first one,
    /// and how many of them are part of the epoch.
    fn batch<'py>(&self, py: Python<'py>, batch: usize) -> PyResult<(Bound<'py, PyBytes>, usize, usize)> {
        let (mut kept, mut own) = (self.room.try_lock().ok(), Vec::new());
        let room = kept.as_deref_mut().unwrap_or(&mut own);
        let planned = self.fill(py, batch, room)?;
        Ok((int64_bytes(py, room)?, planned.position, planned.valid))
    }
}

impl Plan {
    /// Returns batch `batch` of this plan, and its indices.
    pub(super) fn planned(&self, py: Python<'_>, batch: usize) -> PyResult<(sluicegate::PlannedBatch, Vec<usize>)> {
        let mut indices = Vec::new();
        self.fill(py, batch, &mut indices).map(|planned| (planned, indices))
    }

    /// Adds some indices of batch `batch` to `into`: see [`EpochPlan::peek_indices`].
    pub(super) fn peek_indices(&self, batch: usize, into: &mut Vec<usize>) {
        self.plan.peek_indices(batch, into);
    }

    fn fill(&self, py: Python<'_>, batch: usize, into: &mut Vec<usize>) -> PyResult<sluicegate::PlannedBatch> {
        let len = self.plan.len();
        if batch >= len {
            return Err(PyIndexError::new_err(format!("batch {batch} is out of range for a plan of {len} batches")));
        }
        if self.needs_no_detach {
            return Ok(self.plan.batch(batch, into));
        }
        detach(py, || Ok(self.plan.batch(batch, into)))
    }
}

/// Returns the order that reads `indices` in sequence; None if one is negative.
#[pyfunction]
pub(super) fn explicit_order(py: Python<'_>, indices: &Indices) -> PyResult<Option<Order>> {
    let indices = all_places(py, indices, Positions::new(usize::MAX))?;
    Ok(indices.map(|indices| Order(Arc::new(ExplicitOrder::new(indices)))))
}

/// Returns batches of these sizes, cut from `indices`; None if one index is negative.
#[pyfunction]
pub(super) fn explicit_batches(py: Python<'_>, indices: &Indices, sizes: Vec<usize>) -> PyResult<Option<Batches>> {
    let Some(indices) = all_places(py, indices, Positions::new(usize::MAX))? else { return Ok(None) };
    if sizes.iter().sum::<usize>() != indices.len() {
        return Err(PyValueError::new_err("the sizes of the batches do not add up to the number of indices"));
    }
    Ok(Some(Batches(Arc::new(ExplicitOrder::in_batches(indices, &sizes)))))
}
