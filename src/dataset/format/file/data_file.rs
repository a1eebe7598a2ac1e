//! [`DataFile`]: a file that samples are read from, without a descriptor that stays open.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::file_identity::FileIdentity;
use super::source_files::look_at;
use crate::local_path::check_readable;
use crate::memory::{Segment, widen};
use crate::{DType, Error, Result};

/// How many files of one dataset are mapped: the kernel lets a process have 65,530 mappings. Those after them are opened
/// for each read, which takes some µs more.
pub(in crate::dataset::format) const MAPPED_FILES: usize = 4096;

/// One of the files of a dataset.
///
/// No descriptor stays open: a mapping needs none, and a dataset may have more files than a process may have open. What is
/// found under the path is compared with what was opened, after each batch: a file that was cut or replaced meanwhile is
/// [`Error::Shrunk`] or [`Error::Changed`]. One that was removed is read to its end as long as it is mapped.
pub(in crate::dataset::format) struct DataFile {
    path: PathBuf,
    identity: FileIdentity,
    mapping: Option<Segment>,
}

/// True if a file is mapped when it is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::dataset::format) enum Access {
    Mapped,
    OpenedForEachRead,
}

impl DataFile {
    /// The file at `path`, of which nothing is read yet.
    pub(in crate::dataset::format) fn open(path: &Path, access: Access) -> Result<Self> {
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

    /// Its first bytes, at most `most`.
    pub(in crate::dataset::format) fn start(&self, most: usize) -> Result<Vec<u8>> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let mut start = Vec::new();
        open_regular(&self.path)?.take(most as u64).read_to_end(&mut start).map_err(io)?;
        Ok(start)
    }

    /// The size when it was opened, in bytes.
    pub(in crate::dataset::format) fn bytes(&self) -> u64 {
        self.identity.bytes
    }

    /// Reads the integers of `dtype` from byte `offset` on, as int64, as many as `into` has room for; they must lie below
    /// [`bytes`](Self::bytes). What was read is the file's only if [`check`](Self::check) says so afterwards.
    pub(in crate::dataset::format) fn read_widened(&self, offset: u64, dtype: DType, into: &mut [u8]) -> Result<()> {
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
            // Cut since the look at its size.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(self.identity.shrunk(&self.path, file.metadata().map_err(io)?.len()));
            }
            Err(error) => return Err(io(error)),
        }
        Ok(())
    }

    /// Begins to bring bytes that will be read soon into the processor's cache, if they are in memory.
    pub(in crate::dataset::format) fn prefetch(&self, offset: u64, bytes: usize) {
        if let Some(mapping) = &self.mapping {
            mapping.prefetch(offset as usize, bytes);
        }
    }

    /// Has the operating system begin to read bytes that will be asked for soon.
    pub(in crate::dataset::format) fn will_read(&self, offset: u64, bytes: usize) {
        if let Some(mapping) = &self.mapping {
            let start = (offset as usize).min(mapping.len());
            mapping.will_read(start..start.saturating_add(bytes).min(mapping.len()));
        }
    }

    /// Fails when the file was cut or replaced before what was read of it last had been copied.
    pub(in crate::dataset::format) fn check(&self) -> Result<()> {
        self.mapping.as_ref().map_or(Ok(()), |mapping| self.identity.check_mapping(&self.path, mapping))
    }

    /// The error of contents that the format does not allow.
    pub(in crate::dataset::format) fn refuse(&self, offset: u64, reason: String) -> Error {
        Error::Format { path: self.path.clone(), offset, reason }
    }
}

/// Opens a file to read any part of it.
pub(in crate::dataset::format) fn open_regular(path: &Path) -> Result<File> {
    look_at(path)?;
    open_at_once(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })
}

/// Opens what is there without waiting: a FIFO that was put in a file's place would have no writer.
pub(in crate::dataset::format) fn open_at_once(path: &Path) -> io::Result<File> {
    match File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        // A file server holds a lease of it, and gives it up while one waits.
        Err(error) if error.kind() == ErrorKind::WouldBlock && fs::metadata(path)?.is_file() => File::open(path),
        opened => opened,
    }
}
