//! `matching_paths`: the paths that a pattern stands for.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use pyo3::prelude::*;
use sluicegate::internal;

use crate::detach::detach_long;

/// At most `most` paths that `pattern` stands for, in no particular order, some of them twice if `**` occurs twice. An OSError
/// when a folder can't be read although its permissions allow it.
#[pyfunction]
pub(crate) fn matching_paths(py: Python<'_>, pattern: OsString, most: usize) -> PyResult<Vec<OsString>> {
    let find = || internal::matching_paths(pattern.as_bytes(), most);
    Ok(detach_long(py, "listing files", find)?.into_iter().map(OsString::from_vec).collect())
}
