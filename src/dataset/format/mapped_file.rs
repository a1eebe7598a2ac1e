//! [`MappedFile`]: a file of fixed contents that is read by its address.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::memory::Segment;
use crate::{Error, Result};

/// The first bytes of a file, memory-mapped, with the checks that make it safe to read while others may cut it: the size
/// before each batch, and after it whether its pages were there.
pub(super) struct MappedFile {
    path: PathBuf,
    file: File,
    segment: Arc<Segment>,
}

impl MappedFile {
    /// Opens the file at `path`, for [`new`](Self::new).
    pub(super) fn open(path: &Path) -> Result<File> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        // Opening a pipe would wait until somebody writes to it.
        if !std::fs::metadata(path).map_err(io)?.is_file() && !path.is_dir() {
            let reason = "this is no regular file, which alone can be mapped: copy its contents to one".into();
            return Err(Error::Format { path: path.to_path_buf(), offset: 0, reason });
        }
        File::open(path).map_err(io)
    }

    /// The first `bytes` bytes of `file`, which was opened at `path`.
    pub(super) fn new(path: PathBuf, file: File, bytes: usize) -> Result<Self> {
        match Segment::map_file(&file, bytes) {
            Ok(segment) => Ok(Self { path, file, segment: Arc::new(segment) }),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Runs `read`, which copies from the segment.
    ///
    /// # Errors
    /// Those of `read`, and [`Error::Shrunk`] when the file is shorter than what is mapped, or was while it was copied.
    pub(super) fn read(&self, read: impl FnOnce() -> Result<()>) -> Result<()> {
        self.check_size()?;
        read()?;
        // Costs no system call.
        if self.segment.has_lost_pages() { self.check_size() } else { Ok(()) }
    }

    fn check_size(&self) -> Result<()> {
        let expected = self.segment.len() as u64;
        let found = self.file.metadata().map_err(|source| Error::Io { path: self.path.clone(), source })?.len();
        if found < expected || self.segment.has_lost_pages() {
            return Err(Error::Shrunk { path: self.path.clone(), expected, found });
        }
        Ok(())
    }
}
