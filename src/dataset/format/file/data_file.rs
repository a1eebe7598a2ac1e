//! [`DataFile`]: a file that samples are read from, without keeping a descriptor open.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::file_identity::FileIdentity;
use super::source_files::look_at;
use crate::local_path::check_readable;
use crate::memory::{Segment, widen};
use crate::{DType, Error, Result};

/// The number of files of one dataset that are mapped: the kernel limits a process to 65,530 mappings. Further files
/// are opened for each read, which takes a few µs more.
pub(crate) const MAPPED_FILES: usize = 4096;

/// One of the files of a dataset.
///
/// No descriptor stays open: a mapping needs none, and a dataset may have more files than a process may have open.
/// After each batch, the file found at the path is compared with the one that was opened: truncation is
/// [`Error::Shrunk`], replacement [`Error::Changed`]. A removed file can still be read to its end while it is mapped.
pub(crate) struct DataFile {
    path: PathBuf,
    identity: FileIdentity,
    mapping: Option<Segment>,
}

/// How a file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Mapped,
    OpenedForEachRead,
}

impl DataFile {
    /// Opens the file at `path`, without reading from it yet.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self> {
        check_readable("path", path)?;
        let path = std::path::absolute(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
        let io = |source| Error::Io { path: path.clone(), source };
        let file = open_regular(&path)?;
        let identity = FileIdentity::of(&file.metadata().map_err(io)?);
        let mapping = match access {
            Access::Mapped => Some(Segment::map_file(&file, identity.bytes as usize).map_err(io)?),
            Access::OpenedForEachRead => None,
        };
        Ok(Self { path, identity, mapping })
    }

    /// Returns its first bytes, at most `most`.
    pub(crate) fn start(&self, most: usize) -> Result<Vec<u8>> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let mut start = Vec::new();
        open_regular(&self.path)?.take(most as u64).read_to_end(&mut start).map_err(io)?;
        Ok(start)
    }

    /// Its size when it was opened, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.identity.bytes
    }

    /// Fills `into` with the integers of `dtype` from byte `offset` on, converted to int64; they must lie below
    /// [`bytes`](Self::bytes). The result is valid only if [`check`](Self::check) succeeds afterward.
    pub(crate) fn read_widened(&self, offset: u64, dtype: DType, into: &mut [u8]) -> Result<()> {
        if let Some(mapping) = &self.mapping {
            mapping.widen_to(offset as usize, dtype, into);
            return Ok(());
        }
        let io = |source| Error::Io { path: self.path.clone(), source };
        let file = open_regular(&self.path)?;
        self.identity.compare(&self.path, &file.metadata().map_err(io)?)?;
        let mut narrow = vec![0; into.len() / size_of::<i64>() * dtype.bytes()];
        match file.read_exact_at(&mut narrow, offset) {
            Ok(()) => widen(dtype, &narrow, into),
            // Truncated since its size was checked.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(self.identity.shrunk(&self.path, file.metadata().map_err(io)?.len()));
            }
            Err(error) => return Err(io(error)),
        }
        Ok(())
    }

    /// Prefetches bytes that will be read soon into the CPU cache, if they are in memory.
    pub(crate) fn prefetch(&self, offset: u64, bytes: usize) {
        if let Some(mapping) = &self.mapping {
            mapping.prefetch(offset as usize, bytes);
        }
    }

    /// Asks the operating system to start reading bytes that will be needed soon.
    pub(crate) fn will_read(&self, offset: u64, bytes: usize) {
        if let Some(mapping) = &self.mapping {
            let start = (offset as usize).min(mapping.len());
            mapping.will_read(start..start.saturating_add(bytes).min(mapping.len()));
        }
    }

    /// Fails if the file was truncated or replaced before the last read was done.
    pub(crate) fn check(&self) -> Result<()> {
        self.mapping.as_ref().map_or(Ok(()), |mapping| self.identity.check_mapping(&self.path, mapping))
    }

    /// Returns the error for contents that the format does not allow.
    pub(crate) fn refuse(&self, offset: u64, reason: String) -> Error {
        Error::Format { path: self.path.clone(), offset, reason }
    }
}

/// Opens a file for random access.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    look_at(path)?;
    open_at_once(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })
}

/// Opens the file without blocking: a FIFO that took its place might have no writer.
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    match File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        // A lease is held on it, by a file server for instance; a blocking open waits until it is released.
        Err(error) if error.kind() == ErrorKind::WouldBlock && fs::metadata(path)?.is_file() => File::open(path),
        opened => opened,
    }
}
