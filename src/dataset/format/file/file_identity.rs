//! [`FileIdentity`]: which file was opened at a path, and its size.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::memory::Segment;
use crate::{Error, Result};

/// Identifies the file that must stay at a path, not truncated, while a dataset reads it. It may be removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileIdentity {
    pub(super) device_and_inode: (u64, u64),
    /// The number of bytes that are read, from the start of the file.
    pub(super) bytes: u64,
}

impl FileIdentity {
    pub(super) fn of(found: &Metadata) -> Self {
        Self { device_and_inode: (found.dev(), found.ino()), bytes: found.len() }
    }

    /// Fails if another file is at `path`, or this one was truncated.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::Shrunk`], or [`Error::Io`] if the metadata at `path` cannot be read.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        match fs::metadata(path) {
            Ok(found) => self.compare(path, &found),
            // Removed: a mapping keeps the contents.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(Error::Io { path: path.to_path_buf(), source }),
        }
    }

    /// Like [`check`](Self::check), after bytes of `mapping`, which maps this file, were copied.
    pub(super) fn check_mapping(&self, path: &Path, mapping: &Segment) -> Result<()> {
        self.check(path)?;
        // Truncated and extended again, or truncated and removed.
        if mapping.has_lost_pages() { Err(self.shrunk(path, 0)) } else { Ok(()) }
    }

    /// Like [`check`](Self::check), for the metadata `found` at `path`.
    pub(super) fn compare(&self, path: &Path, found: &Metadata) -> Result<()> {
        if (found.dev(), found.ino()) != self.device_and_inode {
            let reason = "it was replaced by a different file".to_owned();
            return Err(Error::Changed { path: path.to_path_buf(), reason });
        }
        if found.len() < self.bytes { Err(self.shrunk(path, found.len())) } else { Ok(()) }
    }

    /// Returns the error for a file of which `found` bytes are left.
    pub(super) fn shrunk(&self, path: &Path, found: u64) -> Error {
        Error::Shrunk { path: path.to_path_buf(), expected: self.bytes, found }
    }
}
