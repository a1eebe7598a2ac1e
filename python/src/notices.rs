//! Repairs that were made without an error, for Python to warn about.

use pyo3::prelude::*;

/// Returns the messages since the last call.
#[pyfunction]
pub(super) fn take_notices() -> Vec<String> {
    sluicegate::internal::take_notices()
}
