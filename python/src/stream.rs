//! `Stream`: samples that are read sequentially.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::StreamPacking;
use sluicegate::{Damages, Error, IterableDataset, StreamDataset, StreamFormat, StreamSource};

use super::error::{to_python, unknown};
use super::memory::descriptors;

/// (kind, path or command or name, descriptor), where the kind is "path", "command", or "open".
pub(crate) type SourceForm = (String, OsString, Option<RawFd>);

/// (unpack by content, leave out damaged samples, maximum bytes of a sample, commands may be run).
pub(crate) type OptionsForm = (bool, bool, u64, bool);

/// A dataset of the core without an index. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct Stream(Arc<StreamDataset>);

impl Stream {
    pub(super) fn core(&self) -> Arc<dyn IterableDataset> {
        Arc::clone(&self.0) as Arc<dyn IterableDataset>
    }

    /// Returns a stream of the samples of `sources` in `format`; raises their errors.
    pub(crate) fn open(
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
            // An unknown kind must not be run by a shell.
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
    /// True if a second pass, or another process, finds the same samples.
    #[getter]
    fn is_repeatable(&self) -> bool {
        self.0.is_repeatable()
    }
}
