//! What was repaired without an error, for Python to warn of.

use pyo3::prelude::*;

/// The texts since the last call.
#[pyfunction]
pub(super) fn take_notices() -> Vec<String> {
    sluicegate::internal::take_notices()
}
