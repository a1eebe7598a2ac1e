//! The one place that releases the GIL.

use pyo3::prelude::*;

use super::error::to_python;

/// Runs `work` without the GIL and turns its error into a Python exception.
///
/// Everything that can wait, copy a batch or take a lock goes through here: a thread that holds the GIL while it waits
/// for one that wants it never wakes.
#[expect(clippy::disallowed_methods, reason = "this is the door that the ban points to")]
pub(super) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> crate::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| to_python(py, error))
}
