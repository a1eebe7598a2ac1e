//! [`ShardFile`]: a file that appears under its name when it is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::dataset::format::file::access::{folder_of, is_at};
use crate::local_path::check_writable;
use crate::{Error, Result};

/// A file with a temporary name that ends in `.unfinished` until it is complete. It is removed if dropped before that;
/// what a killed process leaves behind is removed by the next one.
pub(crate) struct ShardFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    bytes: u64,
}

impl ShardFile {
    /// Begins the file that will be at `path`. An existing one is replaced at the end.
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        check_writable("path", &path)?;
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        // Removed instead of overwritten: it may be a link to a file of another user.
        let _ = fs::remove_file(&unfinished);
        let file = File::options().write(true).create_new(true).open(&unfinished);
        let file = file.map_err(|source| Error::Io { path: unfinished.clone(), source })?;
        Ok(Self { path, unfinished, file, bytes: 0 })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|source| Error::Io { path: self.unfinished.clone(), source })
    }

    /// Waits until all data is on disk, and gives the file its name. Returns its size.
    pub(crate) fn finish(self) -> Result<u64> {
        let end = || -> io::Result<()> {
            self.file.sync_all()?;
            if !self.is_ours() {
                return Err(io::Error::other("another writer started this shard again while the disk did not respond"));
            }
            fs::rename(&self.unfinished, &self.path)?;
            // Syncs the folder, so that the name is on disk too.
            File::open(folder_of(&self.path))?.sync_all()
        };
        end().map_err(|source| Error::Io { path: self.path.clone(), source })?;
        Ok(self.bytes)
    }

    /// True if the unfinished file is ours. Another job may have replaced it, if this one was given up long ago and its
    /// disk responds only now.
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
        // After a rename, there is nothing to remove.
        if self.is_ours() {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}
