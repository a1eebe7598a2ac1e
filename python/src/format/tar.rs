//! Tar archives.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::UnpackedFolder;
use sluicegate::{Damages, Dataset as _, OnMissing, Result, StreamFormat, Tar, TarEnd, TarField, TarOptions, TarValue};

use crate::dataset::Dataset;
use crate::detach::opening;
use crate::error::unknown;
use crate::stream::{OptionsForm, SourceForm, Stream};

/// The arguments for reading archives, as passed from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TarArguments {
    /// (extension, type of its value); None for all that the first sample has, as bytes.
    fields: Option<Vec<(String, String)>>,
    on_missing: String,
    skip_damaged: bool,
    concatenated: bool,
    index_folder: Option<PathBuf>,
    cache_folder: Option<PathBuf>,
    cache_bytes: Option<u64>,
    /// (archive, key)
    excluded: Vec<(PathBuf, Vec<u8>)>,
}

/// Archives, the names of their fields, what was left out, and the number of samples in each archive.
type OpenTar = (Tar, Vec<String>, Vec<String>, Vec<usize>);

impl TarArguments {
    /// Opens the archives.
    pub(crate) fn open(self, paths: Vec<PathBuf>) -> Result<OpenTar> {
        let mut unpacked = UnpackedFolder { path: self.cache_folder, ..UnpackedFolder::default() };
        unpacked.bytes = self.cache_bytes.unwrap_or(unpacked.bytes);
        let options = TarOptions {
            on_missing: on_missing_of(&self.on_missing)?,
            end: end_of(self.concatenated),
            damages: if self.skip_damaged { Damages::LeaveOut } else { Damages::Refuse },
            excluded: self.excluded,
            index_folder: self.index_folder,
            unpacked,
        };
        let fields = match self.fields {
            Some(fields) => fields,
            None => {
                let extensions = Tar::open(paths.clone(), Vec::new(), &options)?.first_extensions()?;
                // A name that is not UTF-8 can't be requested.
                let names = extensions.into_iter().filter_map(|name| String::from_utf8(name).ok());
                names.map(|name| (name, "bytes".to_owned())).collect()
            }
        };
        let tar = Tar::open(paths, tar_fields(fields)?, &options)?;
        let fields = tar.schema().fields().iter();
        let names = fields.map(|field| field.name().to_owned()).collect();
        let (damages, samples) = (tar.damages()?, tar.samples_by_archive());
        Ok((tar, names, damages, samples))
    }
}

/// Returns the fields for the key and the archive of a sample, and for these: (extension, type of its value).
fn tar_fields(fields: Vec<(String, String)>) -> Result<Vec<TarField>> {
    let mut of_sample = vec![TarField::new("__key__", TarValue::Key), TarField::new("__url__", TarValue::Url)];
    for (name, value) in fields {
        let value = match value.as_str() {
            "bytes" => TarValue::Bytes,
            "int" => TarValue::Int,
            "float" => TarValue::Float,
            "npy" => TarValue::Npy,
            "ragged npy" => TarValue::RaggedNpy,
            other => return Err(unknown("fields", other)),
        };
        of_sample.push(TarField::new(name, value));
    }
    Ok(of_sample)
}

/// Returns where an archive ends.
fn end_of(concatenated: bool) -> TarEnd {
    if concatenated { TarEnd::FileEnd } else { TarEnd::ZeroBlock }
}

/// Returns how to treat samples that lack a field, by name.
fn on_missing_of(word: &str) -> Result<OnMissing> {
    match word {
        "error" => Ok(OnMissing::Refuse),
        "skip" => Ok(OnMissing::Skip),
        "none" => Ok(OnMissing::Empty),
        other => Err(unknown("on_missing", other)),
    }
}

/// Opens the samples in the archives at `paths`. Returns the dataset, the names of its fields, what was left out of
/// damaged archives, how many samples each archive has, and how many of those the dataset has.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple is what Python gets")]
pub(crate) fn tar_dataset(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    arguments: TarArguments,
) -> PyResult<(Dataset, Vec<String>, Vec<String>, Vec<usize>, Vec<usize>)> {
    let (tar, names, damages, samples) = opening(py, || arguments.open(paths))?;
    let sizes = opening(py, || tar.block_sizes())?;
    Ok((Dataset(Arc::new(tar)), names, damages, samples, sizes))
}

/// Opens a stream of the samples in archives: (extension, type of its value), or all that the first sample has, as
/// bytes. `on_missing` is "error", "skip", or "none".
#[pyfunction]
pub(crate) fn tar_stream(
    py: Python<'_>,
    sources: Vec<SourceForm>,
    options: OptionsForm,
    fields: Option<Vec<(String, String)>>,
    on_missing: &str,
    concatenated: bool,
) -> PyResult<Stream> {
    let format = on_missing_of(on_missing).and_then(|on_missing| {
        // Given fields already include those for the key and the archive.
        let (fields, first) = match fields {
            Some(fields) => (Some(tar_fields(fields)?), Vec::new()),
            None => (None, tar_fields(Vec::new())?),
        };
        Ok(StreamFormat::tar(fields, first, on_missing, end_of(concatenated)))
    });
    Stream::open(py, sources, options, format)
}
