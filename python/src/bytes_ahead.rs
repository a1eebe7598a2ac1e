//! `BytesAhead`: the bound in bytes on what a loader fetches ahead, shared by its iterators.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pyo3::prelude::*;

/// The bytes that are fetched ahead for one loader, and the bound on them.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct BytesAhead(pub(super) Arc<sluicegate::internal::BytesAhead>);

#[pymethods]
impl BytesAhead {
    /// Returns a counter with this bound in bytes (default: a quarter of the memory that this process may use).
    #[new]
    #[pyo3(signature = (bound=None))]
    fn new(bound: Option<NonZeroUsize>) -> Self {
        Self(Arc::new(sluicegate::internal::BytesAhead::new(bound)))
    }

    /// Returns the bound in effect.
    #[getter]
    fn bound(&self) -> usize {
        self.0.bound()
    }

    /// Returns the size of the largest batch so far; 0 before the first.
    #[getter]
    fn largest(&self) -> usize {
        self.0.largest()
    }

    /// Returns the number of batches that are ready and not taken.
    #[getter]
    fn batches(&self) -> usize {
        self.0.batches()
    }

    /// Returns the number of bytes of these batches.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the peak number of bytes.
    #[getter]
    fn high_water(&self) -> usize {
        self.0.high_water()
    }

    /// Records the size of a batch.
    fn learn(&self, bytes: usize) {
        self.0.learn(bytes);
    }

    /// Registers one more iterator, which shares the bound while the returned object lives.
    fn join(&self) -> Party {
        Party(self.0.join())
    }

    /// Counts a ready batch while the returned object lives.
    fn hold(&self, bytes: usize) -> Held {
        Held(self.0.hold(bytes))
    }
}

/// An iterator's share of the bound.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Party(sluicegate::internal::Party);

#[pymethods]
impl Party {
    /// Returns how many batches may be in flight: at least one.
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
    /// Returns its size in bytes.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
