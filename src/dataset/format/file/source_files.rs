//! [`SourceFiles`]: files by their paths, and what tells one from what it was.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::access::FileAccess;
use super::block_sums::BlockSums;
use super::scan::scan;
use crate::local_path::check_readable;
use crate::{Error, Result};

/// A file as it was found.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) facts: FileFacts,
    /// Checksums of its contents, where it is a copy that this crate has made.
    pub(in crate::dataset::format) sums: Option<Arc<BlockSums>>,
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

/// What changes when a file is written to or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// The size.
    pub(crate) bytes: u64,
    /// When it was last written to, in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// When its contents, name, owner or permissions were last changed, in nanoseconds since 1970. No program can set it.
    pub(crate) changed: i64,
    /// Device and number, which a file keeps under every name. A copy has others.
    pub(crate) identity: (u64, u64),
    /// Who may read it.
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

    /// Those of a folder that stands for `files`: `digest` says which files they are and whether they have changed.
    #[cfg(feature = "image")]
    pub(in crate::dataset::format) fn of_many(
        files: impl Iterator<Item = Self>,
        bytes: u64,
        digest: u64,
    ) -> Option<Self> {
        let access = files.map(|facts| facts.access).reduce(FileAccess::and)?;
        Some(Self { bytes, modified: digest as i64, changed: 0, identity: (0, 0), access })
    }

    /// True if these are of a folder that stands for its files.
    pub(in crate::dataset::format) fn stands_for_many(&self) -> bool {
        self.identity == (0, 0)
    }

    /// What `now` has other than this, in words; nothing when it is the same file with the same contents.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        if self.identity != now.identity {
            return Some("another file is in its place".into());
        }
        if self.bytes != now.bytes {
            return Some(format!("it had {} bytes, and has {} now", self.bytes, now.bytes));
        }
        (self.modified != now.modified).then(|| "it was written to".into())
    }
}

/// A list of files, in a given order.
#[derive(Debug, Clone)]
pub(crate) struct SourceFiles {
    files: Vec<SourceFile>,
}

impl SourceFiles {
    /// Looks at the files at `paths`.
    ///
    /// # Errors
    /// [`Error::Io`] names the first that is not there; [`Error::Format`] the first that is not a regular file.
    pub(crate) fn look(paths: Vec<PathBuf>) -> Result<Self> {
        let blocks: Vec<&[PathBuf]> = paths.chunks(256).collect();
        let facts = scan(&blocks, |block| {
            block.iter().map(|path| Ok(FileFacts::of(&look_at(path)?))).collect::<Result<Vec<_>>>()
        })?;
        let facts: Vec<FileFacts> = facts.into_iter().flatten().collect();
        let files = paths.into_iter().zip(facts).map(|(path, facts)| SourceFile { path, facts, sums: None });
        Ok(Self { files: files.collect() })
    }

    /// The same files, of which some are copies with these checksums.
    pub(in crate::dataset::format) fn with_sums(mut self, sums: Vec<Option<Arc<BlockSums>>>) -> Self {
        self.files.iter_mut().zip(sums).for_each(|(file, sums)| file.sums = sums);
        self
    }

    /// Who may read all of them; nothing where there are none.
    pub(in crate::dataset::format) fn access(&self) -> Option<FileAccess> {
        self.files.iter().map(|file| file.facts.access).reduce(FileAccess::and)
    }

    /// One that stands for many, with what tells them from what they were.
    #[cfg(feature = "image")]
    pub(crate) fn of_one(path: PathBuf, facts: FileFacts) -> Self {
        Self { files: vec![SourceFile { path, facts, sums: None }] }
    }

    /// Those of these numbers, in their order.
    pub(crate) fn subset(&self, numbers: &[usize]) -> Self {
        Self { files: numbers.iter().map(|&number| self.files[number].clone()).collect() }
    }

    pub(crate) fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The size of all of them together, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.facts.bytes).fold(0, u64::saturating_add)
    }
}

/// What is found at `path`, which must be a regular file: opening a pipe would wait for a writer.
pub(in crate::dataset::format) fn look_at(path: &Path) -> Result<Metadata> {
    check_readable("path", path)?;
    let found = fs::metadata(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    if found.is_dir() {
        // As opening it for reading would say it.
        let source = std::io::Error::from_raw_os_error(libc::EISDIR);
        return Err(Error::Io { path: path.to_path_buf(), source });
    }
    if !found.is_file() {
        let reason = "only a regular file can be read at any position; copy the contents to one".into();
        return Err(Error::Format { path: path.to_path_buf(), offset: 0, reason });
    }
    Ok(found)
}
