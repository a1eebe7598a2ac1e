//! CSV files.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::{Csv, CsvHeader, StreamFormat};

use super::typed_field::{TypedForm, content_of, typed_fields};
use crate::dataset::Dataset;
use crate::detach::opening;
use crate::stream::{OptionsForm, SourceForm, Stream};

/// Opens the rows of the CSV files at `paths`: the columns that `fields` describe, or all, with `defaults` (name, text)
/// for empty cells. Returns the dataset, what each column holds, and the broken rows, which only `leave_out` allows.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as many as Python's constructor has")]
pub(crate) fn csv_dataset(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    fields: Option<Vec<TypedForm>>,
    defaults: Vec<(String, String)>,
    has_header: bool,
    delimiter: u8,
    index_folder: Option<PathBuf>,
    leave_out: bool,
) -> PyResult<(Dataset, Vec<&'static str>, Vec<String>)> {
    let header = if has_header { CsvHeader::FirstRow } else { CsvHeader::None };
    let contents = |rows: &Csv| rows.fields().iter().map(content_of).collect();
    let fields = || fields.map(typed_fields).transpose();
    if leave_out {
        let rows = opening(py, || Csv::open_whole(paths, fields()?, &defaults, header, delimiter, index_folder))?;
        let contents = contents(rows.dataset());
        let (rows, damages) = Dataset::whole(rows);
        return Ok((rows, contents, damages));
    }
    let rows = opening(py, || Csv::open(paths, fields()?, &defaults, header, delimiter, index_folder))?;
    let contents = contents(&rows);
    Ok((Dataset(Arc::new(rows)), contents, Vec::new()))
}

/// Opens a stream of rows: the columns that `fields` describe, or all, with `defaults` (name, text) for empty cells.
#[pyfunction]
pub(crate) fn csv_stream(
    py: Python<'_>,
    sources: Vec<SourceForm>,
    options: OptionsForm,
    fields: Option<Vec<TypedForm>>,
    defaults: Vec<(String, String)>,
    has_header: bool,
    delimiter: u8,
) -> PyResult<Stream> {
    let header = if has_header { CsvHeader::FirstRow } else { CsvHeader::None };
    let fields = fields.map(typed_fields).transpose();
    Stream::open(py, sources, options, fields.map(|fields| StreamFormat::csv(fields, defaults, header, delimiter)))
}
