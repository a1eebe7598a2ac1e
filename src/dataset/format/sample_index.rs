//! [`SampleIndex`]: where each sample lies, found once and kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, fcntl_lock};

use super::index_file::{ColumnPlace, IndexKey, LONGEST_HEADER, decode, encode, header_bytes};
use super::index_place::{IndexPlace, name_from};
use super::source_files::SourceFiles;
use crate::memory::{Array, Segment};
use crate::{Error, Result};

/// A column of numbers that a scan has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexColumn {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl IndexColumn {
    fn form(&self) -> (usize, usize) {
        match self {
            Self::U32(numbers) => (4, numbers.len()),
            Self::U64(numbers) => (8, numbers.len()),
        }
    }

    fn write(&self, file: &mut impl Write) -> io::Result<()> {
        match self {
            Self::U32(numbers) => numbers.iter().try_for_each(|number| file.write_all(&number.to_le_bytes())),
            Self::U64(numbers) => numbers.iter().try_for_each(|number| file.write_all(&number.to_le_bytes())),
        }
    }
}

/// Columns of numbers, such as place and size of every sample, in a file that is memory-mapped: opening it reads the header
/// alone. Any thread, any process.
pub(crate) struct SampleIndex {
    columns: Vec<(Array, usize)>,
    /// Nothing where no file could be written: it is in memory then.
    path: Option<PathBuf>,
    expected: u64,
}

impl SampleIndex {
    /// The index of `files`, opened where there is one that is not older than they are, or else made by `scan` and put there.
    ///
    /// `format` names the format and the version of what its columns mean, `parameters` whatever else they depend on. Many
    /// processes may do this at once: one scans, the others wait for it. Where nothing can be written, each has its own in
    /// memory.
    ///
    /// # Errors
    /// Those of `scan`. An index that can't be read or written is none.
    pub(crate) fn open_or_build(
        files: &SourceFiles,
        (format, parameters): (&str, &str),
        place: &IndexPlace,
        scan: impl FnOnce() -> Result<Vec<IndexColumn>>,
    ) -> Result<Self> {
        let paths = place.paths(files.files(), &format!("{format}\0{parameters}"));
        let found = |path: &PathBuf| Self::open(path, &key_of(files, format, parameters));
        if let Some(index) = paths.iter().find_map(found) {
            return Ok(index);
        }
        let Some((path, lock)) = paths.iter().find_map(|path| Lock::at(path).map(|lock| (path, lock))) else {
            return Self::in_memory(scan()?);
        };
        // Somebody may have been faster.
        if let Some(index) = found(path) {
            return Ok(index);
        }
        let columns = scan()?;
        let key = key_of(files, format, parameters);
        let written = write_whole(path, &key, &columns);
        let index = written.ok().and_then(|()| Self::open(path, &key));
        drop(lock);
        index.map_or_else(|| Self::in_memory(columns), Ok)
    }

    /// The index at `path`, if it is one, is whole, and is of `key`.
    fn open(path: &Path, key: &IndexKey) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let mut header = vec![0; 24];
        file.read_exact(&mut header).ok()?;
        let bytes = header_bytes(&header).filter(|&bytes| bytes as u64 <= metadata.len() && bytes <= LONGEST_HEADER)?;
        header.resize(bytes, 0);
        file.read_exact(&mut header[24..]).ok()?;
        let (found, places) = decode(&header, metadata.len()).filter(|(found, _)| found == key)?;
        drop(found);
        let expected = metadata.len();
        let segment = Arc::new(Segment::map_file(&file, usize::try_from(expected).ok()?).ok()?);
        let column = |place: &ColumnPlace| {
            let array = Array::contiguous(Arc::clone(&segment), place.offset, place.bytes_per_number, &[place.len]);
            array.ok().map(|array| (array, place.bytes_per_number))
        };
        let columns = places.iter().map(column).collect::<Option<_>>()?;
        Some(Self { columns, path: Some(path.to_path_buf()), expected })
    }

    pub(super) fn in_memory(columns: Vec<IndexColumn>) -> Result<Self> {
        let columns = columns.into_iter().map(|column| {
            let (bytes, len) = column.form();
            // As they are in a file.
            let segment = match column {
                IndexColumn::U32(numbers) => Segment::from_vec(numbers.into_iter().map(u32::to_le).collect()),
                IndexColumn::U64(numbers) => Segment::from_vec(numbers.into_iter().map(u64::to_le).collect()),
            };
            Ok((Array::contiguous(Arc::new(segment), 0, bytes, &[len])?, bytes))
        });
        Ok(Self { columns: columns.collect::<Result<_>>()?, path: None, expected: 0 })
    }

    /// The file that it is in, if it is in one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// How many columns there are.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The length of column `column`.
    pub(crate) fn len(&self, column: usize) -> usize {
        self.columns[column].0.len()
    }

    /// Number `row` of column `column`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`]; [`Error::Shrunk`] when the index was cut since it was opened.
    pub(crate) fn get(&self, column: usize, row: usize) -> Result<u64> {
        let (array, bytes) = &self.columns[column];
        let mut number = [0; 8];
        array.copy_row(row, &mut number[..*bytes])?;
        self.check(array)?;
        Ok(u64::from_le_bytes(number))
    }

    /// The numbers from `start` on of column `column`, as many as there is room for.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn get_range(&self, column: usize, start: usize, into: &mut [u64]) -> Result<()> {
        let (array, bytes) = &self.columns[column];
        let end = start.saturating_add(into.len());
        let mut read = vec![0; into.len() * bytes];
        array.copy_range(start..end, &mut read)?;
        self.check(array)?;
        for (number, read) in into.iter_mut().zip(read.chunks_exact(*bytes)) {
            let mut word = [0; 8];
            word[..*bytes].copy_from_slice(read);
            *number = u64::from_le_bytes(word);
        }
        Ok(())
    }

    /// In a sorted column of ends (of files, of blocks): which of them holds `place`, and where that one begins.
    ///
    /// # Errors
    /// As [`get`](Self::get): `place` is not below the last end.
    pub(crate) fn find(&self, column: usize, place: u64) -> Result<(usize, u64)> {
        let (mut low, mut high) = (0, self.len(column));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(column, middle)? <= place { low = middle + 1 } else { high = middle }
        }
        if low == self.len(column) {
            let index = usize::try_from(place).unwrap_or(usize::MAX);
            let len = self.len(column).checked_sub(1).map_or(Ok(0), |last| self.get(column, last))?;
            return Err(Error::IndexOutOfRange { index, len: usize::try_from(len).unwrap_or(usize::MAX) });
        }
        Ok((low, if low == 0 { 0 } else { self.get(column, low - 1)? }))
    }

    /// Costs no system call as long as all is well.
    fn check(&self, array: &Array) -> Result<()> {
        match &self.path {
            Some(path) if array.segment().has_lost_pages() => {
                let found = fs::metadata(path).map_or(0, |metadata| metadata.len());
                Err(Error::Shrunk { path: path.clone(), expected: self.expected, found })
            }
            _ => Ok(()),
        }
    }
}

fn key_of(files: &SourceFiles, format: &str, parameters: &str) -> IndexKey {
    let mut key = IndexKey { format: format.into(), parameters: parameters.into(), files: Vec::new() };
    let folder = files.files().first().and_then(|first| first.path.parent()).unwrap_or_else(|| Path::new(""));
    files.files().iter().for_each(|file| key.push_file(name_from(&file.path, folder), &file.facts));
    key
}

/// Puts a whole index at `path`, or nothing: it is written under another name first.
fn write_whole(path: &Path, key: &IndexKey, columns: &[IndexColumn]) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}-{number}.unfinished", process::id()));
    let unfinished = PathBuf::from(unfinished);
    let write = || {
        let forms: Vec<_> = columns.iter().map(IndexColumn::form).collect();
        let (header, places) = encode(key, &forms);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&unfinished)?);
        file.write_all(&header)?;
        for (column, place) in columns.iter().zip(&places) {
            file.seek(SeekFrom::Start(place.offset as u64))?;
            column.write(&mut file)?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        // A column of no numbers may lie behind the last byte that was written.
        let end = places.iter().map(|place| place.offset + place.len * place.bytes_per_number).max();
        file.set_len(end.unwrap_or(0).max(header.len()) as u64)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

/// The right to make what is to be at some path. The operating system takes it from a process that dies, and no forked child
/// inherits it. Two threads of one process may both have it: then both make the index, and one of the two stays.
pub(super) struct Lock {
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Waits for the lock of `path`; nothing when there can't be a file there. On a file system without locks everybody has
    /// it at once.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::create_dir_all(path.parent()?).ok()?;
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let path = PathBuf::from(lock);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).ok()?;
        while let Err(rustix::io::Errno::INTR) = fcntl_lock(&file, FlockOperation::LockExclusive) {}
        Some(Self { _file: file, path })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Who waits for this very file still gets the lock of it, sees the index, and is content.
        let _ = fs::remove_file(&self.path);
    }
}
