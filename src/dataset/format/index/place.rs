//! [`IndexPlace`]: where an index is looked for, and where it is put.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::file::digest_of;
use crate::Result;
use crate::dataset::format::file::source_files::SourceFile;
use crate::local_path::check_writable;

/// Below this many bytes in all files it costs less to look through them than to keep in a file what was found.
/// A fuzzer is to spend its time on indices, not on reading files that are large enough to have one.
pub(in crate::dataset::format) const SMALL: u64 = if cfg!(fuzzing) { 4 << 10 } else { 4 << 20 };

/// Where an index is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexPlace {
    /// Beside the first file; where that can't be written to, in the user's cache folder: `$SLUICEGATE_CACHE`,
    /// `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`.
    Beside,
    /// In this folder.
    Folder(PathBuf),
}

impl IndexPlace {
    /// `folder`, or beside the files where there is none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the folder is a URL.
    pub(crate) fn new(folder: Option<PathBuf>) -> Result<Self> {
        let Some(folder) = folder else { return Ok(Self::Beside) };
        check_writable("index_folder", &folder)?;
        Ok(Self::Folder(folder))
    }

    /// Where the index of `files` may be, the place to be preferred first. Two lists of files, or two `kinds` (format and
    /// parameters), have indices of different names.
    pub(super) fn candidates(&self, files: &[SourceFile], kind: &str) -> Vec<IndexPath> {
        let Some(first) = files.first() else { return Vec::new() };
        let folder = first.path.parent().unwrap_or_else(|| Path::new(""));
        let anywhere = |into: &Path| IndexPath::new(into, files, Path::new(""), kind);
        match self {
            // By the names that the files have from there: a folder that is moved keeps its index.
            Self::Beside => {
                let beside = IndexPath::new(folder, files, folder, kind);
                let cache = user_cache().filter(|cache| check_writable("SLUICEGATE_CACHE", cache).is_ok());
                [beside].into_iter().chain(cache.map(|cache| anywhere(&cache))).collect()
            }
            Self::Folder(path) => vec![anywhere(path)],
        }
    }
}

/// A path at which an index may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexPath {
    pub(super) path: PathBuf,
    /// Files that lie below it are called by their names from there; nothing for all by their whole paths.
    pub(super) base: PathBuf,
    /// How the names of all indices end that are of the same kind, whatever their files.
    ending: String,
}

impl IndexPath {
    fn new(folder: &Path, files: &[SourceFile], base: &Path, kind: &str) -> Self {
        let ending = format!("-{:016x}.sluicegate-index", digest_of(kind.as_bytes()));
        let path = folder.join(name(files, base, &ending));
        Self { path, base: base.to_path_buf(), ending }
    }

    /// The paths of the indices of this kind in this folder, those that were made last first.
    pub(super) fn siblings(&self) -> Vec<PathBuf> {
        let Some(entries) = self.path.parent().and_then(|folder| folder.read_dir().ok()) else { return Vec::new() };
        let named = entries.flatten().filter(|entry| entry.file_name().as_bytes().ends_with(self.ending.as_bytes()));
        let mut dated: Vec<_> =
            named.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        dated.sort_unstable_by(|a, b| b.cmp(a));
        dated.into_iter().map(|(_, path)| path).collect()
    }
}

/// The name of a file as it is kept with an index: from the folder `folder`, if it lies below it.
pub(super) fn name_from<'a>(path: &'a Path, folder: &Path) -> &'a [u8] {
    path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes()
}

fn name(files: &[SourceFile], folder: &Path, ending: &str) -> PathBuf {
    let mut all = Vec::new();
    for file in files {
        all.push(0);
        all.extend(name_from(&file.path, folder));
    }
    let first = files[0].path.file_name().unwrap_or(OsStr::new("")).as_bytes();
    // A name may have 255 bytes.
    let mut name = first[..first.len().min(180)].to_vec();
    name.extend(format!(".{:016x}{ending}", digest_of(&all)).into_bytes());
    PathBuf::from(std::ffi::OsString::from_vec(name))
}

pub(in crate::dataset::format) fn user_cache() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("SLUICEGATE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?.join("sluicegate")))
}
