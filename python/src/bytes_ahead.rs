//! `BytesAhead`: the bound in bytes on what a loader fetches ahead, as its iterators share it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pyo3::prelude::*;

/// What is fetched ahead for one loader, in bytes, and the bound on it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct BytesAhead(pub(super) Arc<sluicegate::internal::BytesAhead>);

#[pymethods]
impl BytesAhead {
    /// With a bound in bytes; without one a quarter of what this process may use.
    #[new]
    #[pyo3(signature = (bound=None))]
    fn new(bound: Option<NonZeroUsize>) -> Self {
        Self(Arc::new(sluicegate::internal::BytesAhead::new(bound)))
    }

    /// The bound in force.
    #[getter]
    fn bound(&self) -> usize {
        self.0.bound()
    }

    /// The size of the largest batch so far; 0 before the first.
    #[getter]
    fn largest(&self) -> usize {
        self.0.largest()
    }

    /// The number of batches that are ready and not taken.
    #[getter]
    fn batches(&self) -> usize {
        self.0.batches()
    }

    /// Their bytes.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The most bytes that there ever were.
    #[getter]
    fn high_water(&self) -> usize {
        self.0.high_water()
    }

    /// Takes note of the size of a batch.
    fn learn(&self, bytes: usize) {
        self.0.learn(bytes);
    }

    /// One more iterator that shares the bound, as long as what is returned lives.
    fn join(&self) -> Party {
        Party(self.0.join())
    }

    /// Counts a batch that is ready, as long as what is returned lives.
    fn hold(&self, bytes: usize) -> Held {
        Held(self.0.hold(bytes))
    }
}

/// An iterator's part of the bound.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Party(sluicegate::internal::Party);

#[pymethods]
impl Party {
    /// How many batches may be under way: at least one.
    #[getter]
    fn room(&self) -> usize {
        self.0.room()
    }
}

/// A batch that is ready.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Held(pub(super) sluicegate::internal::Held);

#[pymethods]
impl Held {
    /// Its size.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
