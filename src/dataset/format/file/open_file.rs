//! [`OpenFile`]: a file that samples are read from.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use super::data_file::open_at_once;
use super::source_files::{FileFacts, SourceFile};
use crate::memory::Segment;
use crate::watch;
use crate::{Error, Result};

/// The number of reads after which a file is mapped. Copying from a mapping costs a third of a system call, but first
/// touches of its pages cost more than a few calls, so reading one sample from each of many files is faster without it.
const READS_BEFORE_MAPPING: u32 = 8;

/// Bytes announced at a time: Linux's default read-ahead, and the most that it is sure to read for one announcement.
const READ_AHEAD: usize = 128 << 10;

/// An open file that many threads can read at any offset at once.
pub(crate) struct OpenFile {
    file: File,
    source: SourceFile,
    reads: AtomicU32,
    /// A mapping of the whole file; `None` if the operating system refuses.
    mapping: OnceLock<Option<Segment>>,
}

impl OpenFile {
    pub(crate) fn open(source: SourceFile) -> Result<Self> {
        let file =
            open_at_once(&source.path).map_err(|error| Error::Io { path: source.path.clone(), source: error })?;
        let open = Self { file, source, reads: AtomicU32::new(0), mapping: OnceLock::new() };
        open.check()?;
        Ok(open)
    }

    /// The size, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.source.facts.bytes
    }

    pub(crate) fn source(&self) -> &SourceFile {
        &self.source
    }

    /// Fails if the file was written to, truncated or replaced since it was listed. A file that was only removed can be
    /// read to its end.
    pub(crate) fn check(&self) -> Result<()> {
        let io = |error| Error::Io { path: self.source.path.clone(), source: error };
        let found = self.file.metadata().map_err(io)?;
        let mut now = FileFacts::of(&found);
        // The file has lost its name, possibly to another file.
        if found.nlink() == 0
            && let Ok(other) = std::fs::metadata(&self.source.path)
        {
            now = FileFacts::of(&other);
        }
        self.source.check(&now)
    }

    /// Maps the whole file. Only reads through [`Segment::read_by`] survive a truncation.
    ///
    /// # Errors
    /// [`Error::Io`] if the operating system refuses.
    pub(crate) fn map(&self) -> Result<Segment> {
        let mapped = Segment::map_file(&self.file, self.bytes() as usize);
        mapped.map_err(|source| Error::Io { path: self.source.path.clone(), source })
    }

    /// As [`read_at`](Self::read_at), but from a mapping once the file has been read often enough.
    pub(crate) fn copy_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.compare(offset, into.len())?;
        if let Some(mapping) = self.mapping()
            && offset.checked_add(into.len() as u64).is_some_and(|end| end <= self.bytes())
        {
            mapping.copy_to(offset as usize, into);
            if !mapping.has_lost_pages() {
                return Ok(());
            }
            // Truncated, or the disk has failed: a system call reports which.
        }
        self.read_at(offset, into)
    }

    fn mapping(&self) -> Option<&Segment> {
        let mapping = match self.mapping.get() {
            Some(mapping) => mapping,
            None if self.reads.fetch_add(1, Ordering::Relaxed) < READS_BEFORE_MAPPING => return None,
            None => self.mapping.get_or_init(|| self.map().ok().inspect(Segment::expect_any_order)),
        };
        mapping.as_ref().filter(|mapping| !mapping.has_lost_pages())
    }

    /// Asks the operating system to start reading bytes that will be needed soon.
    pub(crate) fn will_read(&self, offset: u64, bytes: u64) {
        // A length of 0 would mean everything up to the end of the file.
        if let Some(bytes) = NonZeroU64::new(bytes) {
            // Only a hint: if it fails, reading merely takes longer.
            let _ = fadvise(&self.file, offset, Some(bytes), Advice::WillNeed);
        }
    }

    /// As [`will_read`](Self::will_read), for any number of bytes; does nothing if they appear to be in memory.
    pub(crate) fn will_read_all(&self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.bytes());
        let last = end.saturating_sub(1);
        if end <= offset || [offset, offset + (last - offset) / 2, last].into_iter().all(|at| self.is_in_memory(at)) {
            return;
        }
        // Of a longer range, the system would start to read only a first part, whose size depends on the disk.
        (offset..end).step_by(READ_AHEAD).for_each(|start| self.will_read(start, (end - start).min(READ_AHEAD as u64)));
    }

    /// True if the byte at `offset` can be read without waiting for the disk.
    fn is_in_memory(&self, offset: u64) -> bool {
        let mut byte = [0];
        let into = &mut [IoSliceMut::new(&mut byte)];
        matches!(preadv2(&self.file, into, offset, ReadWriteFlags::NOWAIT), Ok(1))
    }

    /// Fails if these bytes belong to a copy, and are not what was written to it.
    fn compare(&self, offset: u64, bytes: usize) -> Result<()> {
        self.source.sums.as_ref().map_or(Ok(()), |sums| sums.compare(&self.file, &self.source.path, offset, bytes))
    }

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Format`] if they are not all within the file; [`Error::Changed`] if they no longer are.
    pub(crate) fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let path = &self.source.path;
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > self.bytes()) {
            let reason =
                format!("{} bytes are expected here, but the file has only {} in total", into.len(), self.bytes());
            return Err(Error::Format { path: path.clone(), offset, reason });
        }
        // Index builds and searches for damage read through this function, and can be interrupted here.
        watch::advance(into.len())?;
        self.compare(offset, into.len())?;
        match self.file.read_exact_at(into, offset) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let reason = "it was truncated".into();
                Err(Error::Changed { path: path.clone(), reason })
            }
            result => result.map_err(|source| Error::Io { path: path.clone(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::super::source_files::SourceFiles;
    use super::*;

    fn open(folder: &TempDir, contents: &[u8]) -> OpenFile {
        let path = folder.path().join("file");
        fs::write(&path, contents).unwrap();
        OpenFile::open(SourceFiles::look(vec![path]).unwrap().files()[0].clone()).unwrap()
    }

    fn copied(file: &OpenFile, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut into = vec![255; bytes];
        file.copy_at(offset, &mut into).map(|()| into)
    }

    #[test]
    fn mapped_and_unmapped_files_read_the_same() {
        let folder = TempDir::new().unwrap();
        let contents: Vec<u8> = (0..10_000).map(|number| (number % 251) as u8).collect();
        let file = open(&folder, &contents);
        for read in 0..3 * u64::from(READS_BEFORE_MAPPING) {
            let offset = read * 311;
            file.will_read(offset, 500);
            assert_eq!(copied(&file, offset, 500).unwrap(), contents[offset as usize..][..500], "read {read}");
            assert!(copied(&file, 10_000, 0).unwrap().is_empty());
            for (offset, bytes) in [(9_999, 2), (10_001, 1), (u64::MAX, 1), (u64::MAX - 10, 100)] {
                assert!(matches!(copied(&file, offset, bytes), Err(Error::Format { offset: at, .. }) if at == offset));
            }
        }
        assert!(file.mapping.get().is_some_and(Option::is_some));
    }

    #[test]
    fn truncating_a_mapped_file_is_an_error() {
        let folder = TempDir::new().unwrap();
        let file = open(&folder, &[7; 20_000]);
        for _ in 0..=READS_BEFORE_MAPPING {
            assert_eq!(copied(&file, 15_000, 3).unwrap(), [7; 3]);
        }
        fs::File::options().write(true).open(folder.path().join("file")).unwrap().set_len(100).unwrap();
        for _ in 0..2 {
            let error = copied(&file, 15_000, 5_000).unwrap_err();
            assert!(matches!(&error, Error::Changed { reason, .. } if reason == "it was truncated"), "{error}");
        }
        assert_eq!(copied(&file, 50, 50).unwrap(), [7; 50]);
    }
}
