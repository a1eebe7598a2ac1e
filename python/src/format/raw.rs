//! Files of samples of one size.

use std::path::PathBuf;

use pyo3::prelude::*;
use sluicegate::{Field, Raw, RawField};

use crate::dataset::Dataset;
use crate::detach::opening;

/// The samples of `sample_bytes` bytes in the files at `paths`: (name, dtype, shape, offset, is swapped) by field.
#[pyfunction]
pub(crate) fn raw_dataset(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    header_bytes: usize,
    sample_bytes: usize,
    fields: Vec<(String, String, Vec<usize>, usize, bool)>,
) -> PyResult<Dataset> {
    let fields = fields.into_iter().map(|(name, dtype, shape, offset, is_swapped)| {
        let field = RawField::new(Field::new(name, dtype.parse()?, shape), offset);
        Ok(if is_swapped { field.swapped() } else { field })
    });
    let samples = opening(py, || {
        Raw::open_all(&paths, header_bytes, sample_bytes, fields.collect::<sluicegate::Result<Vec<_>>>()?)
    })?;
    Dataset::wrap(py, Ok(samples))
}
