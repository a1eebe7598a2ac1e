//! Archives: what is read of them, and `TarShards`, which writes them.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use super::detach::detach;
use crate::{
    Dataset, Error, OnMissing, Result, Tar, TarDamages, TarEnd, TarField, TarOptions, TarValue, UnpackedFolder, Wait,
};

/// How archives are read, as Python says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct TarArguments {
    /// (extension, what its bytes are); nothing for all that the first sample has, as bytes.
    fields: Option<Vec<(String, String)>>,
    on_missing: String,
    skip_damaged: bool,
    concatenated: bool,
    index_folder: Option<PathBuf>,
    cache_folder: Option<PathBuf>,
    cache_bytes: Option<u64>,
}

impl TarArguments {
    /// Opens the archives; and tells the names of the fields, and what was left out.
    pub(super) fn open(self, paths: Vec<PathBuf>) -> Result<(Tar, Vec<String>, Vec<String>)> {
        let mut unpacked = UnpackedFolder { path: self.cache_folder, ..UnpackedFolder::default() };
        unpacked.bytes = self.cache_bytes.unwrap_or(unpacked.bytes);
        let options = TarOptions {
            on_missing: match self.on_missing.as_str() {
                "error" => OnMissing::Refuse,
                "skip" => OnMissing::Skip,
                "none" => OnMissing::Empty,
                other => return Err(unknown("on_missing", other)),
            },
            end: if self.concatenated { TarEnd::FileEnd } else { TarEnd::ZeroBlock },
            damages: if self.skip_damaged { TarDamages::LeaveOut } else { TarDamages::Refuse },
            index_folder: self.index_folder,
            unpacked,
        };
        let fields = match self.fields {
            Some(fields) => fields,
            None => {
                let extensions = Tar::open(paths.clone(), Vec::new(), &options)?.first_extensions()?;
                // What is no text can't be asked for.
                let names = extensions.into_iter().filter_map(|name| String::from_utf8(name).ok());
                names.map(|name| (name, "bytes".to_owned())).collect()
            }
        };
        let mut of_sample = vec![TarField::new("__key__", TarValue::Key), TarField::new("__url__", TarValue::Url)];
        for (name, value) in fields {
            let value = match value.as_str() {
                "bytes" => TarValue::Bytes,
                "int" => TarValue::Int,
                "float" => TarValue::Float,
                "npy" => TarValue::Npy,
                other => return Err(unknown("fields", other)),
            };
            of_sample.push(TarField::new(name, value));
        }
        let tar = Tar::open(paths, of_sample, &options)?;
        let fields = tar.schema().fields().iter();
        let names = fields.map(|field| field.name().to_owned()).collect();
        let damages = tar.damages()?;
        Ok((tar, names, damages))
    }
}

fn unknown(argument: &'static str, found: &str) -> Error {
    Error::InvalidArgument { argument, reason: format!("`{found}` is not known") }
}

/// Writes archives of bounded size.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct TarShards(Mutex<crate::TarShards>);

#[pymethods]
impl TarShards {
    /// Shards of at most `shard_bytes` bytes, written by `threads` threads.
    #[new]
    fn new(py: Python<'_>, shard_bytes: u64, threads: usize) -> PyResult<Self> {
        detach(py, || Ok(Self(Mutex::new(crate::TarShards::new(shard_bytes, threads)?))))
    }

    /// Appends a sample of these members: (name, contents). `False` when the shard is full, or none was begun.
    #[expect(clippy::needless_pass_by_value, reason = "the references keep the bytes alive without the GIL")]
    fn append(&self, py: Python<'_>, members: Vec<(Vec<u8>, pyo3::pybacked::PyBackedBytes)>) -> PyResult<bool> {
        self.with(py, |shards| shards.append(members.iter().map(|(name, contents)| (name.as_slice(), &**contents))))
    }

    /// Ends the shard that is filled, and begins the one that is to be at `path`.
    fn begin(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |shards| {
            shards.begin(path);
            Ok(())
        })
    }

    /// Ends the shard that is filled.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |shards| {
            shards.end();
            Ok(())
        })
    }

    /// The shards that are whole since this was asked last, as (number, samples, bytes); with `wait` all that were ended.
    fn written(&self, py: Python<'_>, wait: bool) -> PyResult<Vec<(usize, usize, u64)>> {
        let wait = if wait { Wait::ForAll } else { Wait::ForNone };
        let written = self.with(py, |shards| shards.written(wait))?;
        Ok(written.into_iter().map(|shard| (shard.number, shard.samples, shard.bytes)).collect())
    }
}

impl TarShards {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut crate::TarShards) -> Result<T> + Send,
    ) -> PyResult<T> {
        detach(py, || work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
