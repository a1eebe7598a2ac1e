//! TFRecord files.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::{Features, Result, StreamFormat, TfRecord};

use super::typed_field::{TypedForm, content_of, typed_fields};
use crate::dataset::Dataset;
use crate::detach::opening;
use crate::stream::{OptionsForm, SourceForm, Stream};

/// Returns what to read of each record: its bytes, these features, or those of the first records.
fn features_of(is_raw: bool, features: Option<Vec<TypedForm>>) -> Result<Features> {
    Ok(match features {
        _ if is_raw => Features::Raw,
        Some(forms) => Features::Typed(typed_fields(forms)?),
        None => Features::Inferred,
    })
}

/// Opens the samples of the TFRecord files at `paths`: their bytes, their features, or those of the first records.
/// Returns the dataset, what each feature holds, and the broken samples, which only `leave_out` allows.
#[pyfunction]
pub(crate) fn tfrecord_dataset(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    is_raw: bool,
    features: Option<Vec<TypedForm>>,
    index_folder: Option<PathBuf>,
    leave_out: bool,
) -> PyResult<(Dataset, Vec<&'static str>, Vec<String>)> {
    let features = || features_of(is_raw, features);
    let contents = |samples: &TfRecord| samples.fields().iter().map(content_of).collect();
    if leave_out {
        let samples = opening(py, || TfRecord::open_whole(paths, features()?, index_folder))?;
        let contents = contents(samples.dataset());
        let (samples, damages) = Dataset::whole(samples);
        return Ok((samples, contents, damages));
    }
    let samples = opening(py, || TfRecord::open(paths, features()?, index_folder))?;
    let contents = contents(&samples);
    Ok((Dataset(Arc::new(samples)), contents, Vec::new()))
}

/// Opens a stream of the samples of TFRecords: their bytes, their features, or those of the first records.
#[pyfunction]
pub(crate) fn tfrecord_stream(
    py: Python<'_>,
    sources: Vec<SourceForm>,
    options: OptionsForm,
    is_raw: bool,
    features: Option<Vec<TypedForm>>,
) -> PyResult<Stream> {
    Stream::open(py, sources, options, features_of(is_raw, features).map(StreamFormat::tfrecord))
}
