//! [`IndexPlace`]: where an index is looked for, and where it is put.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::index_file::digest_of;
use super::source_files::SourceFile;

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
    /// The paths at which the index of `files` may be, the one to be preferred first. Two lists of files, or two `kinds`
    /// (format and parameters), have indices of different names.
    pub(super) fn paths(&self, files: &[SourceFile], kind: &str) -> Vec<PathBuf> {
        let Some(first) = files.first() else { return Vec::new() };
        let folder = first.path.parent().unwrap_or_else(|| Path::new(""));
        match self {
            // By the names that the files have from there: a folder that is moved keeps its index.
            Self::Beside => {
                let beside = folder.join(name(files, folder, kind));
                [beside]
                    .into_iter()
                    .chain(user_cache().map(|cache| cache.join(name(files, Path::new(""), kind))))
                    .collect()
            }
            Self::Folder(path) => vec![path.join(name(files, Path::new(""), kind))],
        }
    }
}

/// The name of a file as it is kept with an index: from the folder of the first file, if it lies below it.
pub(super) fn name_from<'a>(path: &'a Path, folder: &Path) -> &'a [u8] {
    path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes()
}

fn name(files: &[SourceFile], folder: &Path, kind: &str) -> PathBuf {
    let mut all = kind.as_bytes().to_vec();
    for file in files {
        all.push(0);
        all.extend(name_from(&file.path, folder));
    }
    let first = files[0].path.file_name().unwrap_or(OsStr::new("")).as_bytes();
    // A name may have 255 bytes.
    let mut name = first[..first.len().min(180)].to_vec();
    name.extend(format!(".{:016x}.sluicegate-index", digest_of(&all)).into_bytes());
    PathBuf::from(std::ffi::OsString::from_vec(name))
}

pub(super) fn user_cache() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("SLUICEGATE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?.join("sluicegate")))
}
