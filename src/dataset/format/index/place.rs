//! [`IndexPlace`]: where an index is searched for and stored.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::file::digest_of;
use crate::Result;
use crate::dataset::format::file::source_files::SourceFile;
use crate::local_path::check_writable;

/// Files with fewer bytes in total are scanned each time, which costs less than storing an index. Lower for fuzzers,
/// which should spend their time on indices, not on reading files that are large enough to have one.
pub(crate) const SMALL: u64 = if cfg!(fuzzing) { 4 << 10 } else { 4 << 20 };

/// Where an index is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexPlace {
    /// Next to the first file; if that folder isn't writable, in the user's cache folder: `$SLUICEGATE_CACHE`,
    /// `$XDG_CACHE_HOME/sluicegate` or `~/.cache/sluicegate`.
    Beside,
    /// In this folder.
    Folder(PathBuf),
}

impl IndexPlace {
    /// `folder`, or next to the files if that is `None`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the folder is a URL.
    pub(crate) fn new(folder: Option<PathBuf>) -> Result<Self> {
        let Some(folder) = folder else { return Ok(Self::Beside) };
        check_writable("index_folder", &folder)?;
        Ok(Self::Folder(folder))
    }

    /// Returns the possible paths of the index of `files`, the preferred one first. The name depends on the list of
    /// files and on the `kind` (format and parameters).
    pub(super) fn candidates(&self, files: &[SourceFile], kind: &str) -> Vec<IndexPath> {
        let Some(first) = files.first() else { return Vec::new() };
        let folder = first.path.parent().unwrap_or_else(|| Path::new(""));
        let anywhere = |into: &Path| IndexPath::new(into, files, Path::new(""), kind);
        match self {
            // Files are named relative to their folder, so that a folder that is moved keeps its index.
            Self::Beside => {
                let next_to_files = IndexPath::new(folder, files, folder, kind);
                let cache = user_cache().filter(|cache| check_writable("SLUICEGATE_CACHE", cache).is_ok());
                [next_to_files].into_iter().chain(cache.map(|cache| anywhere(&cache))).collect()
            }
            Self::Folder(path) => vec![anywhere(path)],
        }
    }
}

/// A path where an index may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexPath {
    pub(super) path: PathBuf,
    /// Files below this folder are named relative to it; if it is empty, all files are named by their full paths.
    pub(super) base: PathBuf,
    /// The suffix of the names of all indices of the same kind, for any files.
    ending: String,
}

impl IndexPath {
    fn new(folder: &Path, files: &[SourceFile], base: &Path, kind: &str) -> Self {
        let ending = format!("-{:016x}.sluicegate-index", digest_of(kind.as_bytes()));
        let path = folder.join(name(files, base, &ending));
        Self { path, base: base.to_path_buf(), ending }
    }

    /// Returns the paths of the indices of this kind in this folder, newest first.
    pub(super) fn siblings(&self) -> Vec<PathBuf> {
        let Some(entries) = self.path.parent().and_then(|folder| folder.read_dir().ok()) else { return Vec::new() };
        let named = entries.flatten().filter(|entry| entry.file_name().as_bytes().ends_with(self.ending.as_bytes()));
        let mut dated: Vec<_> =
            named.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        dated.sort_unstable_by(|a, b| b.cmp(a));
        dated.into_iter().map(|(_, path)| path).collect()
    }
}

/// Returns the name of a file as an index records it: relative to `folder` if it is below it.
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
    // File names are limited to 255 bytes.
    let mut name = first[..first.len().min(180)].to_vec();
    name.extend(format!(".{:016x}{ending}", digest_of(&all)).into_bytes());
    PathBuf::from(std::ffi::OsString::from_vec(name))
}

pub(crate) fn user_cache() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("SLUICEGATE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?.join("sluicegate")))
}
