//! [`SourceFiles`]: files by path, with the facts that show whether they have changed.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::access::FileAccess;
use super::block_sums::BlockSums;
use super::scan::scan;
use crate::local_path::check_readable;
use crate::{Error, Result};

/// A file as it was when it was listed.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) facts: FileFacts,
    /// Checksums of its contents, if it is a copy made by this crate.
    pub(crate) sums: Option<Arc<BlockSums>>,
}

impl SourceFile {
    /// Fails unless `now` is the same file with the same contents.
    ///
    /// # Errors
    /// [`Error::Changed`].
    pub(crate) fn check(&self, now: &FileFacts) -> Result<()> {
        match self.facts.difference(now) {
            Some(reason) => Err(Error::Changed { path: self.path.clone(), reason }),
            None => Ok(()),
        }
    }
}

/// Metadata that changes when a file is written to or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// The size in bytes.
    pub(crate) bytes: u64,
    /// Modification time, in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// When contents, name, owner or permissions last changed (ctime), in nanoseconds since 1970. Not settable.
    pub(crate) changed: i64,
    /// Device and inode, which are the same under every name of the file. A copy has different ones.
    pub(crate) identity: (u64, u64),
    /// The permissions to read it.
    pub(crate) access: FileAccess,
}

impl FileFacts {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            bytes: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            identity: (metadata.dev(), metadata.ino()),
            access: FileAccess::of(metadata),
        }
    }

    /// The facts of a folder that stands for `files`; `digest` identifies the files and changes when they do.
    #[cfg(feature = "image")]
    pub(crate) fn of_many(files: impl Iterator<Item = Self>, bytes: u64, digest: u64) -> Option<Self> {
        let access = files.map(|facts| facts.access).reduce(FileAccess::and)?;
        Some(Self { bytes, modified: digest as i64, changed: 0, identity: (0, 0), access })
    }

    /// True if these are the facts of a folder that stands for its files.
    pub(crate) fn represents_folder(&self) -> bool {
        self.identity == (0, 0)
    }

    /// Describes how `now` differs; `None` if it is the same file with the same contents.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        if self.identity != now.identity {
            return Some("it was replaced by a different file".into());
        }
        if self.bytes != now.bytes {
            return Some(format!("it had {} bytes, but has {} now", self.bytes, now.bytes));
        }
        (self.modified != now.modified).then(|| "it was modified".into())
    }
}

/// A list of files, in a given order.
#[derive(Debug, Clone)]
pub(crate) struct SourceFiles {
    files: Vec<SourceFile>,
}

impl SourceFiles {
    /// Reads the metadata of the files at `paths`.
    ///
    /// # Errors
    /// [`Error::Io`] names the first that does not exist; [`Error::Format`] the first that is not a regular file.
    pub(crate) fn look(paths: Vec<PathBuf>) -> Result<Self> {
        let blocks: Vec<&[PathBuf]> = paths.chunks(256).collect();
        let facts = scan(&blocks, |block| {
            block.iter().map(|path| Ok(FileFacts::of(&look_at(path)?))).collect::<Result<Vec<_>>>()
        })?;
        let facts: Vec<FileFacts> = facts.into_iter().flatten().collect();
        let files = paths.into_iter().zip(facts).map(|(path, facts)| SourceFile { path, facts, sums: None });
        Ok(Self { files: files.collect() })
    }

    /// Sets the checksums of those files that are copies.
    pub(crate) fn with_sums(mut self, sums: Vec<Option<Arc<BlockSums>>>) -> Self {
        self.files.iter_mut().zip(sums).for_each(|(file, sums)| file.sums = sums);
        self
    }

    /// The permissions common to all files; `None` if there are no files.
    pub(crate) fn access(&self) -> Option<FileAccess> {
        self.files.iter().map(|file| file.facts.access).reduce(FileAccess::and)
    }

    /// A single entry that stands for many files, with facts that change when they do.
    #[cfg(feature = "image")]
    pub(crate) fn of_one(path: PathBuf, facts: FileFacts) -> Self {
        Self { files: vec![SourceFile { path, facts, sums: None }] }
    }

    /// The files with these numbers, in this order.
    pub(crate) fn subset(&self, numbers: &[usize]) -> Self {
        Self { files: numbers.iter().map(|&number| self.files[number].clone()).collect() }
    }

    pub(crate) fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The total size of the files, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.facts.bytes).fold(0, u64::saturating_add)
    }
}

/// Returns the metadata of `path`, which must be a regular file: opening a pipe would wait for a writer.
pub(crate) fn look_at(path: &Path) -> Result<Metadata> {
    check_readable("path", path)?;
    let found = fs::metadata(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    if found.is_dir() {
        // The error that opening it for reading would give.
        let source = std::io::Error::from_raw_os_error(libc::EISDIR);
        return Err(Error::Io { path: path.to_path_buf(), source });
    }
    if !found.is_file() {
        let reason = "only a regular file can be read at any position; copy its contents to one".into();
        return Err(Error::Format { path: path.to_path_buf(), offset: 0, reason });
    }
    Ok(found)
}
