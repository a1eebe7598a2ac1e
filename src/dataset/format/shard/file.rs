//! [`ShardFile`]: a file that appears under its name when it is whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::dataset::format::file::access::{folder_of, is_at};
use crate::local_path::check_writable;
use crate::{Error, Result};

/// A file that is written under another name, with `.unfinished` at its end, until it is whole. Dropped before that, it is
/// removed; what a killed process leaves is removed by the next one.
pub(in crate::dataset::format) struct ShardFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    bytes: u64,
}

impl ShardFile {
    /// Begins the file that is to be at `path`. One that is there is replaced in the end.
    pub(in crate::dataset::format) fn create(path: PathBuf) -> Result<Self> {
        check_writable("path", &path)?;
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        // Removed, and not written over: it may be a link to a file of someone else.
        let _ = fs::remove_file(&unfinished);
        let file = File::options().write(true).create_new(true).open(&unfinished);
        let file = file.map_err(|source| Error::Io { path: unfinished.clone(), source })?;
        Ok(Self { path, unfinished, file, bytes: 0 })
    }

    pub(in crate::dataset::format) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|source| Error::Io { path: self.unfinished.clone(), source })
    }

    /// Waits until all is on the disk, and gives the file its name. Returns its size.
    pub(in crate::dataset::format) fn finish(self) -> Result<u64> {
        let end = || -> io::Result<()> {
            self.file.sync_all()?;
            if !self.is_ours() {
                return Err(io::Error::other("it was begun again while the disk did not answer"));
            }
            fs::rename(&self.unfinished, &self.path)?;
            // So that the name is on the disk too.
            File::open(folder_of(&self.path))?.sync_all()
        };
        end().map_err(|source| Error::Io { path: self.path.clone(), source })?;
        Ok(self.bytes)
    }

    /// True if the unfinished file is this one. Another job may have begun it again, if this one was given up long ago
    /// and its disk did not answer until now.
    fn is_ours(&self) -> bool {
        is_at(&self.file, &self.unfinished)
    }
}

impl Write for ShardFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ShardFile {
    fn drop(&mut self) {
        // Renamed, it is not there any more.
        if self.is_ours() {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}
