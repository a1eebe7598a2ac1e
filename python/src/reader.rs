//! `Reader`: samples of a dataset, without a loader.

use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use sluicegate::Batch;
use sluicegate::internal::{Fetch, FetchSamples, IndexBatch, Slab};

use super::convert::plain_indices;
use super::dataset::Dataset;
use super::detach::detach;
use super::field_kind::Samples;
use super::hand_over::HandOver;
use super::positions::Positions;

/// Slots kept for the next samples: a user holds few at a time.
const FREE_SLOTS: usize = 2;

/// Reads samples on the calling thread. Threads may share it, and a forked process may continue to use it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Reader {
    dataset: Arc<dyn sluicegate::Dataset>,
    fetch: FetchSamples,
    hand_over: Py<HandOver>,
}

#[pymethods]
impl Reader {
    /// Returns a reader of `dataset`.
    #[new]
    fn new(py: Python<'_>, dataset: &Dataset, hand_over: Py<HandOver>) -> PyResult<Self> {
        hand_over.bind(py).get().check(dataset.0.schema())?;
        let collate = hand_over.bind(py).get().collate();
        let fetch = FetchSamples::new(Arc::clone(&dataset.0), collate, Arc::new(Slab::new(FREE_SLOTS)));
        Ok(Self { fetch, hand_over, dataset: Arc::clone(&dataset.0) })
    }

    /// Returns the sample at `index`, which must not be negative.
    fn sample<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let (indices, batch) = self.read(py, vec![index])?;
        self.hand_over.get().samples(py, self.of(&indices), batch)?.get_item(0)
    }

    /// Returns the samples at `indices`; negative ones count from the end.
    fn samples<'py>(&self, py: Python<'py>, indices: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let (indices, batch) = self.read(py, self.places(indices)?)?;
        self.hand_over.get().samples(py, self.of(&indices), batch)
    }

    /// Returns the batch of the samples at `indices`; negative ones count from the end.
    fn batch<'py>(&self, py: Python<'py>, indices: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        let (indices, batch) = self.read(py, self.places(indices)?)?;
        self.hand_over.get().batch(py, self.of(&indices), batch)
    }

    /// Returns a description of where field `field` of the sample at `index` comes from, if that is known.
    fn origin(&self, py: Python<'_>, index: usize, field: usize) -> PyResult<Option<String>> {
        detach(py, || Ok(self.dataset.origin(index, field)))
    }
}

impl Reader {
    fn places(&self, indices: &Bound<'_, PyList>) -> PyResult<Vec<usize>> {
        plain_indices(indices, Positions::of(&*self.dataset))
            .ok_or_else(|| PyIndexError::new_err("an index is out of range"))
    }

    fn of<'a>(&'a self, indices: &'a [usize]) -> Samples<'a> {
        Samples { indices, dataset: Some(&*self.dataset) }
    }

    fn read(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<(Vec<usize>, Batch)> {
        let request = IndexBatch { epoch: 0, batch_in_epoch: 0, indices, draws: None };
        let batch = detach(py, || self.fetch.fetch(&request))?;
        Ok((request.indices, batch))
    }
}
