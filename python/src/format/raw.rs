//! Files of fixed-size samples.

use std::path::PathBuf;

use pyo3::prelude::*;
use sluicegate::{Field, Raw, RawField, Result, StreamFormat};

use crate::dataset::Dataset;
use crate::detach::opening;
use crate::stream::{OptionsForm, SourceForm, Stream};

/// A field of a fixed-size sample: (name, dtype, shape, offset, is swapped).
type RawForm = (String, String, Vec<usize>, usize, bool);

fn raw_fields(forms: Vec<RawForm>) -> Result<Vec<RawField>> {
    let field = |(name, dtype, shape, offset, is_swapped): RawForm| {
        let field = RawField::new(Field::new(name, dtype.parse()?, shape), offset);
        Ok(if is_swapped { field.swapped() } else { field })
    };
    forms.into_iter().map(field).collect()
}

/// Opens the files at `paths`, whose samples have `sample_bytes` bytes and these fields.
#[pyfunction]
pub(crate) fn raw_dataset(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    header_bytes: usize,
    sample_bytes: usize,
    fields: Vec<RawForm>,
) -> PyResult<Dataset> {
    let samples = opening(py, || Raw::open_all(&paths, header_bytes, sample_bytes, raw_fields(fields)?))?;
    Dataset::wrap(py, Ok(samples))
}

/// Opens a stream of samples of `sample_bytes` bytes with these fields.
#[pyfunction]
pub(crate) fn raw_stream(
    py: Python<'_>,
    sources: Vec<SourceForm>,
    options: OptionsForm,
    header_bytes: usize,
    sample_bytes: usize,
    fields: Vec<RawForm>,
) -> PyResult<Stream> {
    let format = raw_fields(fields).map(|fields| StreamFormat::raw(header_bytes, sample_bytes, fields));
    Stream::open(py, sources, options, format)
}
