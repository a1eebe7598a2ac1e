//! Lines of JSON.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::{JsonLines, StreamFormat};

use super::typed_field::{TypedForm, typed_fields};
use crate::dataset::Dataset;
use crate::detach::opening;
use crate::stream::{OptionsForm, SourceForm, Stream};

/// Opens the lines of the files at `paths`, whole, or as fields. Returns the dataset and the broken lines, which only
/// `leave_out` allows.
#[pyfunction]
pub(crate) fn json_lines_dataset(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    fields: Option<Vec<TypedForm>>,
    index_folder: Option<PathBuf>,
    leave_out: bool,
) -> PyResult<(Dataset, Vec<String>)> {
    if leave_out {
        let open = || JsonLines::open_whole(paths, fields.map(typed_fields).transpose()?, index_folder);
        return Ok(Dataset::whole(opening(py, open)?));
    }
    let lines = opening(py, || JsonLines::open(paths, fields.map(typed_fields).transpose()?, index_folder))?;
    Ok((Dataset(Arc::new(lines)), Vec::new()))
}

/// Opens a stream of lines, whole, or as fields.
#[pyfunction]
pub(crate) fn json_lines_stream(
    py: Python<'_>,
    sources: Vec<SourceForm>,
    options: OptionsForm,
    fields: Option<Vec<TypedForm>>,
) -> PyResult<Stream> {
    Stream::open(py, sources, options, fields.map(typed_fields).transpose().map(StreamFormat::json_lines))
}
