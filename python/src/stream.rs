//! `Stream`: samples that are read from front to back.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::{Damages, StreamPacking};
use sluicegate::{CsvHeader, Error, IterableDataset, StreamDataset, StreamFormat, StreamSource, TarEnd};

use super::error::{to_python, unknown};
use super::format::raw::{RawForm, raw_fields};
use super::format::tar::{on_missing_of, tar_fields};
use super::format::tfrecord::features_of;
use super::format::typed_field::{TypedForm, typed_fields};
use super::memory::descriptors;

/// (kind, path or command or name, descriptor): the kinds are "path", "command" and "open".
type SourceForm = (String, OsString, Option<RawFd>);

/// (unpack by content, leave out what is damaged, the most bytes of a sample, whether commands may be run).
type OptionsForm = (bool, bool, u64, bool);

/// A dataset of the core without an index. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Stream(Arc<StreamDataset>);

impl Stream {
    pub(super) fn core(&self) -> Arc<dyn IterableDataset> {
        Arc::clone(&self.0) as Arc<dyn IterableDataset>
    }

    fn make(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        (by_content, leave_out, largest, may_run_commands): OptionsForm,
        format: sluicegate::Result<StreamFormat>,
    ) -> PyResult<Self> {
        let source = |(kind, text, number): SourceForm| match (kind.as_str(), number) {
            ("path", _) => Ok(StreamSource::Path(PathBuf::from(text))),
            ("open", Some(number)) => {
                let name = text.to_string_lossy().into_owned();
                let file = descriptors(&[number])[0].try_clone_to_owned();
                let file = file.map_err(|source| Error::Io { path: PathBuf::from(&text), source })?;
                Ok(StreamSource::Open(Arc::new(file), name))
            }
            ("command", _) => Ok(StreamSource::Command(text.to_string_lossy().into_owned())),
            // Whatever it is, it is not run by a shell.
            _ => Err(unknown("sources", &kind)),
        };
        let sources = sources.into_iter().map(source).collect::<sluicegate::Result<Vec<_>>>();
        let stream = sources.and_then(|sources| {
            let packing = if by_content { StreamPacking::ByContent } else { StreamPacking::None };
            let damages = if leave_out { Damages::LeaveOut } else { Damages::Refuse };
            let stream = StreamDataset::new(sources, format?);
            let stream = stream.packed(packing).on_damage(damages).with_largest_sample(largest);
            let stream = if may_run_commands { stream } else { stream.without_commands() };
            stream.check()?;
            Ok(Self(Arc::new(stream)))
        });
        stream.map_err(|error| to_python(py, error))
    }
}

#[pymethods]
impl Stream {
    /// Archives: (extension, what its bytes are), or all that the first sample has, as bytes. `on_missing` is "error", "skip"
    /// or "none".
    #[staticmethod]
    fn tar(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        fields: Option<Vec<(String, String)>>,
        on_missing: &str,
        concatenated: bool,
    ) -> PyResult<Self> {
        let on_missing = on_missing_of(on_missing).map_err(|error| to_python(py, error))?;
        let end = if concatenated { TarEnd::FileEnd } else { TarEnd::ZeroBlock };
        let format = fields.map_or(Ok(None), |fields| tar_fields(fields).map(Some)).and_then(|fields| {
            let first = tar_fields(Vec::new())?;
            let fields = fields.map(|fields| fields.into_iter().skip(first.len()).collect());
            Ok(StreamFormat::Tar { fields, first, on_missing, end })
        });
        Self::make(py, sources, options, format)
    }

    /// Lines, whole, or their fields.
    #[staticmethod]
    fn json_lines(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        fields: Option<Vec<TypedForm>>,
    ) -> PyResult<Self> {
        Self::make(py, sources, options, fields.map(typed_fields).transpose().map(StreamFormat::JsonLines))
    }

    /// Samples of TFRecords: their bytes, their features, or those that the first ones have.
    #[staticmethod]
    fn tfrecord(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        is_raw: bool,
        features: Option<Vec<TypedForm>>,
    ) -> PyResult<Self> {
        Self::make(py, sources, options, features_of(is_raw, features).map(StreamFormat::TfRecord))
    }

    /// Rows: the columns that `fields` describe, or all, with `defaults` (name, text) for empty cells.
    #[staticmethod]
    fn csv(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        fields: Option<Vec<TypedForm>>,
        defaults: Vec<(String, String)>,
        has_header: bool,
        delimiter: u8,
    ) -> PyResult<Self> {
        let header = if has_header { CsvHeader::FirstRow } else { CsvHeader::None };
        let format = fields.map(typed_fields).transpose();
        let format = format.map(|fields| StreamFormat::Csv { fields, defaults, header, delimiter });
        Self::make(py, sources, options, format)
    }

    /// Samples of `sample_bytes` bytes, which have these fields.
    #[staticmethod]
    fn raw(
        py: Python<'_>,
        sources: Vec<SourceForm>,
        options: OptionsForm,
        header_bytes: usize,
        sample_bytes: usize,
        fields: Vec<RawForm>,
    ) -> PyResult<Self> {
        let fields = raw_fields(fields);
        Self::make(py, sources, options, fields.map(|fields| StreamFormat::Raw { header_bytes, sample_bytes, fields }))
    }

    /// True if a second pass, or another process, finds the same samples.
    #[getter]
    fn is_repeatable(&self) -> bool {
        self.0.is_repeatable()
    }
}
