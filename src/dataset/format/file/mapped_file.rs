//! [`MappedFile`]: a memory-mapped file whose contents do not change.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_identity::FileIdentity;
use super::page_cache::PageCache;
use crate::local_path::check_readable;
use crate::memory::{Array, Segment};
use crate::{BatchWriter, Error, Result};

/// The first bytes of a file, memory-mapped, and checks that make it safe to read even if another process truncates it:
/// after each batch, the file at its path is compared, and lost pages are detected.
///
/// No descriptor stays open: a mapping needs none, and a dataset may have more files than a process may have open. A
/// removed file can be read to its end.
pub(crate) struct MappedFile {
    path: PathBuf,
    identity: FileIdentity,
    segment: Arc<Segment>,
    page_cache: PageCache,
}

/// Smaller batches are not announced: the read-ahead around one sample brings in most of the others.
const SMALL: usize = 64 << 10;

impl MappedFile {
    /// Opens the file at `path`, for [`new`](Self::new).
    pub(crate) fn open(path: &Path) -> Result<File> {
        check_readable("path", path)?;
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        // Opening a pipe would wait for a writer.
        if !fs::metadata(path).map_err(io)?.is_file() && !path.is_dir() {
            let reason = "only a regular file can be mapped; copy its contents to one".into();
            return Err(Error::Format { path: path.to_path_buf(), offset: 0, reason });
        }
        File::open(path).map_err(io)
    }

    /// The first `bytes` bytes of `file`, which was opened at `path`.
    pub(crate) fn new(path: PathBuf, file: File, bytes: usize) -> Result<Self> {
        // Absolute, because the working directory may change before the next check.
        let absolute = std::path::absolute(&path);
        let mapped = absolute.and_then(|path| {
            let identity = FileIdentity { bytes: bytes as u64, ..FileIdentity::of(&file.metadata()?) };
            let segment = Arc::new(Segment::map_file(&file, bytes)?);
            Ok(Self { path, identity, segment, page_cache: PageCache::new() })
        });
        mapped.map_err(|source| Error::Io { path, source })
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Runs `read`, which copies from the segment.
    ///
    /// # Errors
    /// Those of `read`; [`Error::Shrunk`] if the file is shorter than the mapping, or was during the copy;
    /// [`Error::Changed`] if another file has replaced it.
    pub(crate) fn read(&self, read: impl FnOnce() -> Result<()>) -> Result<()> {
        let read = read();
        // Checked afterward: bytes truncated within a page read as zeros without any other sign. Reported first,
        // because a truncation explains any other error.
        self.identity.check_mapping(&self.path, &self.segment)?;
        read
    }

    /// Lets `gather` read the rows at `indices` of these `arrays` of the file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_rows<'a>(
        &self,
        arrays: impl Iterator<Item = &'a Array> + Clone,
        indices: &[usize],
        into: &mut BatchWriter<'_>,
        mut gather: impl FnMut(&[usize], &mut BatchWriter<'_>) -> Result<()>,
    ) -> Result<()> {
        let bytes = arrays.clone().map(Array::bytes_per_row).fold(0, usize::saturating_add);
        if indices.len() < 2 || bytes.saturating_mul(indices.len()) < SMALL {
            return self.read(|| gather(indices, into));
        }
        self.read(|| {
            let mut batch = self.page_cache.batch(|| arrays.for_each(|array| array.will_read(indices)));
            gather(&indices[..1], &mut into.rows_mut(0..1))?;
            batch.was_read();
            gather(&indices[1..], &mut into.rows_mut(1..indices.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn bytes_read_while_a_file_is_truncated_are_rejected() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 3000]).unwrap();
        let file = MappedFile::new(path.clone(), MappedFile::open(&path).unwrap(), 3000).unwrap();
        let array = Array::contiguous(Arc::clone(file.segment()), 0, 1, &[30, 100]).unwrap();
        let mut row = [0; 100];
        file.read(|| array.copy_row(20, &mut row)).unwrap();
        assert_eq!(row, [7; 100]);
        let cut = file.read(|| {
            // Within a page: the rest reads as zeros without a signal.
            fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
            array.copy_row(20, &mut row)
        });
        assert!(matches!(cut, Err(Error::Shrunk { expected: 3000, found: 1000, .. })), "{cut:?}");
    }
}
