//! Files of samples of one size.

use std::path::PathBuf;

use pyo3::prelude::*;
use sluicegate::{Field, Raw, RawField, Result};

use crate::dataset::Dataset;
use crate::detach::opening;

/// A field of a sample of one size: (name, dtype, shape, offset, is swapped).
pub(crate) type RawForm = (String, String, Vec<usize>, usize, bool);

pub(crate) fn raw_fields(forms: Vec<RawForm>) -> Result<Vec<RawField>> {
    let field = |(name, dtype, shape, offset, is_swapped): RawForm| {
        let field = RawField::new(Field::new(name, dtype.parse()?, shape), offset);
        Ok(if is_swapped { field.swapped() } else { field })
    };
    forms.into_iter().map(field).collect()
}

/// The samples of `sample_bytes` bytes in the files at `paths`, which have these fields.
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
