//! The shuffle buffer, which refers to the samples that Python holds by their slots.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sluicegate::BufferBound;
use sluicegate::internal::BufferPosition;

use super::error::to_python;

/// Decides which of the held samples of a stream comes next. For one thread at a time.
#[pyclass(module = "sluicegate._core")]
pub(super) struct ShuffleBuffer(sluicegate::internal::ShuffleBuffer);

impl ShuffleBuffer {
    pub(super) fn core(&mut self) -> &mut sluicegate::internal::ShuffleBuffer {
        &mut self.0
    }
}

#[pymethods]
impl ShuffleBuffer {
    /// None for `samples` or `bytes` means no bound.
    #[new]
    fn new(
        py: Python<'_>,
        samples: Option<usize>,
        bytes: Option<u64>,
        seed: u64,
        epoch: u64,
        rank: u64,
        worker: u64,
    ) -> PyResult<Self> {
        let bound = BufferBound::new(samples.unwrap_or(usize::MAX), bytes.unwrap_or(u64::MAX));
        let bound = bound.map_err(|error| to_python(py, error))?;
        Ok(ShuffleBuffer(sluicegate::internal::ShuffleBuffer::new(bound, seed, epoch, rank, worker)))
    }

    /// Resumes with the samples of ordinals `held` in the slots.
    fn resume(&mut self, py: Python<'_>, read: u64, held: Vec<u64>, sizes: Vec<u64>) -> PyResult<()> {
        self.0.resume(&BufferPosition { read, held }, &sizes).map_err(|error| to_python(py, error))
    }

    /// Holds the next sample of the stream, in a new last slot.
    fn put(&mut self, bytes: u64) {
        self.0.put(bytes);
    }

    /// Returns the slot of the next sample; the last slot's sample moves to this slot.
    fn take(&mut self) -> Option<usize> {
        self.0.take()
    }

    /// Returns the ordinals of the held samples, by slot.
    fn held(&self) -> Vec<u64> {
        self.0.position().held
    }

    /// Like `held`, as unsigned integers of 8 bytes: a copy that costs next to nothing.
    fn held_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let held = self.0.position().held;
        PyBytes::new_with(py, held.len() * size_of::<u64>(), |bytes| {
            let rooms = bytes.as_chunks_mut().0.iter_mut();
            rooms.zip(held).for_each(|(room, ordinal)| *room = ordinal.to_ne_bytes());
            Ok(())
        })
    }

    #[getter]
    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    #[getter]
    fn read(&self) -> u64 {
        self.0.read()
    }

    #[getter]
    fn yielded(&self) -> u64 {
        self.0.yielded()
    }

    #[getter]
    fn oldest(&self) -> Option<u64> {
        self.0.oldest()
    }
}
