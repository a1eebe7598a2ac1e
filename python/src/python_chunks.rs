//! [`PythonChunks`]: the chunks of an array that a Python object reads.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use sluicegate::Error;
use sluicegate::internal::{ChunkError, ChunkReader};

/// A Python function that takes the first element and the shape of a chunk, and returns the bytes of its elements. It
/// raises `ValueError` if the chunk is damaged.
pub(super) struct PythonChunks(pub(super) Py<PyAny>);

impl ChunkReader for PythonChunks {
    fn read(&self, start: &[usize], shape: &[usize]) -> Result<Vec<u8>, ChunkError> {
        Python::attach(|py| {
            let read = self.0.call1(py, (start, shape)).and_then(|bytes| bytes.extract::<Vec<u8>>(py));
            read.map_err(|error| match error.is_instance_of::<PyValueError>(py) {
                true => ChunkError::Damaged(error.value(py).to_string()),
                false => ChunkError::Other(Error::User(Box::new(error))),
            })
        })
    }
}
