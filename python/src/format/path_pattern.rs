//! `matching_paths`: the paths that match a pattern.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use pyo3::prelude::*;
use sluicegate::internal;

use crate::detach::detach_long;

/// Returns at most `most` paths that match `pattern`, in no particular order, some of them twice if `**` occurs twice.
/// Raises OSError if a folder can't be read although its permissions allow it.
#[pyfunction]
pub(crate) fn matching_paths(py: Python<'_>, pattern: OsString, most: usize) -> PyResult<Vec<OsString>> {
    let find = || internal::matching_paths(pattern.as_bytes(), most);
    Ok(detach_long(py, "listing files", find)?.into_iter().map(OsString::from_vec).collect())
}
