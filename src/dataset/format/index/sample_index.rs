//! [`SampleIndex`]: the position of each sample, found once and stored.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columns::ColumnRole;
use super::file::{ColumnPlace, IndexKey};
use super::freshness::{Fit, IndexedFile};
use super::lock::Lock;
use super::place::{IndexPath, IndexPlace, name_from};
use super::siblings::Siblings;
use super::stored_index::{StoredIndex, write_index};
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::source_files::{SourceFile, SourceFiles};
use crate::memory::{Array, Segment};
use crate::{Error, Result};

pub(crate) use super::columns::IndexColumn;

/// Columns of numbers, such as the offset and size of every sample, in a memory-mapped file. Opening it reads the whole
/// file once to verify its checksum. Can be used by any thread, and shared by processes.
pub(crate) struct SampleIndex {
    columns: Vec<(Array, usize)>,
    /// The number of leading columns with the row ends of each file, one per remaining column; 0 if there are none.
    file_columns: usize,
    /// `None` if no file could be written: then the index is in memory.
    path: Option<PathBuf>,
    expected: u64,
    inode: u64,
}

impl SampleIndex {
    /// Opens the index of `files` if there is one for these very files (or a copied index for copied files); otherwise
    /// builds it with `scan` and stores it. A damaged index is built again, with a notice.
    ///
    /// `format` names the format and the version of what its columns mean, `parameters` everything else that they
    /// depend on. If many processes do this at once, one scans and the others wait for it. If nothing can be written,
    /// each has its own index in memory.
    ///
    /// # Errors
    /// Those of `scan`; a timeout if another process does not finish the index. Failed I/O on the index is ignored.
    pub(crate) fn open_or_build(
        files: &SourceFiles,
        (format, parameters): (&str, &str),
        place: &IndexPlace,
        scan: impl FnOnce() -> Result<Vec<IndexColumn>>,
    ) -> Result<Self> {
        Self::open_or_make(files, (format, parameters), place, 0, |_| Ok((scan()?, Vec::new())))
    }

    /// As [`open_or_build`](Self::open_or_build), but file by file: `scan` gets the numbers of the files that no other
    /// index of this kind contains, and returns columns of these `roles` for each. Column 0 has one row per sample.
    ///
    /// Indices whose files are all contained in this one are removed: this one makes them redundant.
    ///
    /// # Errors
    /// As [`open_or_build`](Self::open_or_build).
    pub(crate) fn open_or_scan(
        files: &SourceFiles,
        kind: (&str, &str),
        place: &IndexPlace,
        roles: &[ColumnRole],
        scan: impl Fn(&[usize]) -> Result<Vec<Vec<IndexColumn>>>,
    ) -> Result<Self> {
        Self::open_or_make(files, kind, place, roles.len(), |path| {
            let siblings = path.map(|path| Siblings::look(path, kind, roles.len())).transpose()?.unwrap_or_default();
            siblings.join(files, path, roles, scan)
        })
    }

    /// As [`open_or_scan`](Self::open_or_scan), in memory.
    ///
    /// # Errors
    /// Those of `scan`.
    pub(super) fn scan_in_memory(
        files: &SourceFiles,
        roles: &[ColumnRole],
        scan: impl Fn(&[usize]) -> Result<Vec<Vec<IndexColumn>>>,
    ) -> Result<Self> {
        let (columns, _) = Siblings::default().join(files, None, roles, scan)?;
        Self::in_memory(columns, roles.len())
    }

    fn open_or_make(
        files: &SourceFiles,
        (format, parameters): (&str, &str),
        place: &IndexPlace,
        file_columns: usize,
        make: impl FnOnce(Option<&IndexPath>) -> Result<(Vec<IndexColumn>, Vec<PathBuf>)>,
    ) -> Result<Self> {
        let paths = place.candidates(files.files(), &format!("{format}\0{parameters}"));
        let access = files.access();
        let found = |path: &IndexPath| {
            let fits = |key: &IndexKey, was_copied| {
                let is_of_kind = key.format == format && key.parameters == parameters;
                is_of_kind.then(|| fit_of(key, files, &path.base, was_copied)).flatten()
            };
            let Some((index, stored, fit)) = Self::open(&path.path, file_columns, fits)? else { return Ok(None) };
            if let (Fit::Copy, Some(access)) = (fit, access) {
                // Spares later runs the comparison of file contents. If writing fails, they compare again.
                let _ = stored.renew(&path.path, renewed(&stored.header.key, files), access);
            }
            Ok(Some(index))
        };
        for path in &paths {
            if let Some(index) = found(path)? {
                return Ok(index);
            }
        }
        let mut locked = None;
        for path in &paths {
            if let Some(lock) = Lock::at(&path.path)? {
                locked = Some((path, lock));
                break;
            }
        }
        let Some((path, lock)) = locked else {
            return Self::in_memory(make(None)?.0, file_columns);
        };
        // Another process may have built it in the meantime.
        if let Some(index) = found(path)? {
            return Ok(index);
        }
        let (columns, replaced) = make(Some(path))?;
        let write = |access| {
            let key = key_of(files, &path.base, format, parameters)?;
            write_index(&path.path, key, &columns, access)
        };
        let index = match access.map(write) {
            Some(Ok(())) => found(path)?,
            // The caller was interrupted.
            Some(Err(error @ Error::User(_))) => return Err(error),
            _ => None,
        };
        if index.is_some() {
            replaced.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        drop(lock);
        index.map_or_else(|| Self::in_memory(columns, file_columns), Ok)
    }

    /// Opens the index at `path`, if there is one whose key and copied state pass `fits`, with its storage.
    ///
    /// # Errors
    /// The error of the watcher.
    pub(super) fn open(
        path: &Path,
        file_columns: usize,
        fits: impl FnOnce(&IndexKey, bool) -> Option<Fit>,
    ) -> Result<Option<(Self, StoredIndex, Fit)>> {
        let Some((stored, fit)) = StoredIndex::open(path, fits)? else { return Ok(None) };
        let column = |place: &ColumnPlace| {
            let array =
                Array::contiguous(Arc::clone(&stored.segment), place.offset, place.bytes_per_number, &[place.len]);
            array.ok().map(|array| (array, place.bytes_per_number))
        };
        let Some(columns) = stored.header.columns.iter().map(column).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let files = stored.header.key.files.len();
        let has_files = columns.iter().take(file_columns).all(|(ends, bytes)| *bytes == 8 && ends.len() == files);
        if columns.len() < file_columns || !has_files {
            return Ok(None);
        }
        let (path, expected, inode) = (Some(path.to_path_buf()), stored.header.contents.bytes, stored.inode);
        Ok(Some((Self { columns, file_columns, path, expected, inode }, stored, fit)))
    }

    /// Makes an index of these columns, of which the first `file_columns` hold the row ends of each file.
    pub(crate) fn in_memory(columns: Vec<IndexColumn>, file_columns: usize) -> Result<Self> {
        let columns = columns.into_iter().map(|column| {
            let (bytes, len) = column.form();
            // In file byte order.
            let segment = match column {
                IndexColumn::U8(numbers) => Segment::from_vec(numbers),
                IndexColumn::U32(numbers) => Segment::from_vec(numbers.into_iter().map(u32::to_le).collect()),
                IndexColumn::U64(numbers) => Segment::from_vec(numbers.into_iter().map(u64::to_le).collect()),
            };
            Ok((Array::contiguous(Arc::new(segment), 0, bytes, &[len])?, bytes))
        });
        Ok(Self { columns: columns.collect::<Result<_>>()?, file_columns, path: None, expected: 0, inode: 0 })
    }

    /// The path of its file, if it is stored in one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the error that its columns are not those of its kind.
    pub(crate) fn mismatch(&self) -> Error {
        self.changed("the columns of the index do not match; remove it".into())
    }

    /// Returns the error that its file is not the one that was written.
    pub(crate) fn changed(&self, reason: String) -> Error {
        Error::Changed { path: self.path().map(PathBuf::from).unwrap_or_default(), reason }
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len() - self.file_columns
    }

    pub(super) fn bytes_per_number(&self, column: usize) -> usize {
        self.columns[self.file_columns + column].1
    }

    /// Returns where the rows of file `file` end in a column.
    ///
    /// # Errors
    /// As [`get`](Self::get); [`Error::IndexOutOfRange`] too if the end is beyond the column.
    pub(crate) fn file_end(&self, column: usize, file: usize) -> Result<usize> {
        let (end, len) = (self.number(column, file)?, self.len(column));
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        if end <= len { Ok(end) } else { Err(Error::IndexOutOfRange { index: end, len }) }
    }

    /// Returns the file that contains row `row` of a column, and that file's first row.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn file_of(&self, column: usize, row: usize) -> Result<(usize, usize)> {
        let files = self.columns[column].0.len();
        let file = partition_point(0..files, |file| Ok(self.file_end(column, file)? <= row))?;
        if file == files {
            return Err(Error::IndexOutOfRange { index: row, len: self.len(column) });
        }
        Ok((file, if file == 0 { 0 } else { self.file_end(column, file - 1)? }))
    }

    /// The length of column `column`.
    pub(crate) fn len(&self, column: usize) -> usize {
        self.columns[self.file_columns + column].0.len()
    }

    /// Returns number `row` of column `column`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`]; [`Error::Shrunk`] if the index was truncated since it was opened.
    pub(crate) fn get(&self, column: usize, row: usize) -> Result<u64> {
        self.number(self.file_columns + column, row)
    }

    fn number(&self, column: usize, row: usize) -> Result<u64> {
        let (array, bytes) = &self.columns[column];
        let mut number = [0; 8];
        array.copy_row(row, &mut number[..*bytes])?;
        self.check(array)?;
        Ok(u64::from_le_bytes(number))
    }

    /// Fills `into` with the numbers of column `column` from row `start` on.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn get_range(&self, column: usize, start: usize, into: &mut [u64]) -> Result<()> {
        let (array, bytes) = &self.columns[self.file_columns + column];
        let end = start.saturating_add(into.len());
        // A small request, which is the usual case, needs no allocation.
        let (mut few, mut many) = ([0; 128], Vec::new());
        let read = match few.get_mut(..into.len() * bytes) {
            Some(few) => few,
            None => {
                many.resize(into.len() * bytes, 0);
                &mut many[..]
            }
        };
        array.copy_range(start..end, read)?;
        self.check(array)?;
        for (number, read) in into.iter_mut().zip(read.chunks_exact(*bytes)) {
            let mut word = [0; 8];
            word[..*bytes].copy_from_slice(read);
            *number = u64::from_le_bytes(word);
        }
        Ok(())
    }

    /// Returns the bytes `rows` of column `column`, which must be a column of bytes.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn get_bytes(&self, column: usize, rows: Range<usize>) -> Result<Vec<u8>> {
        let len = self.len(column);
        if rows.start > rows.end || rows.end > len {
            return Err(Error::IndexOutOfRange { index: rows.end, len });
        }
        let mut read = vec![0; rows.len()];
        self.copy_bytes(column, rows.start, &mut read)?;
        Ok(read)
    }

    /// Fills `into` with the bytes from `start` on of column `column`, which must be a column of bytes.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn copy_bytes(&self, column: usize, start: usize, into: &mut [u8]) -> Result<()> {
        let (array, bytes) = &self.columns[self.file_columns + column];
        let end = start.saturating_add(into.len());
        if *bytes != 1 {
            return Err(Error::IndexOutOfRange { index: end, len: array.len() });
        }
        array.copy_range(start..end, into)?;
        self.check(array)
    }

    /// Fails if the index was truncated since it was opened. Call it after reading a batch: bytes that are cut off
    /// within a page read as zeros without any signal.
    ///
    /// # Errors
    /// [`Error::Shrunk`].
    pub(crate) fn check_whole(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        match fs::metadata(path) {
            // A replacement file may have any size; our file has lost its name, and its contents stay unchanged.
            Ok(found) if found.len() < self.expected && found.ino() == self.inode => {
                Err(Error::Shrunk { path: path.clone(), expected: self.expected, found: found.len() })
            }
            _ => Ok(()),
        }
    }

    /// Makes no system call unless pages were lost.
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

/// Returns the first of `rows` for which `is_before` returns false, which it then does for all later ones, or their end.
pub(crate) fn partition_point(mut rows: Range<usize>, is_before: impl Fn(usize) -> Result<bool>) -> Result<usize> {
    while !rows.is_empty() {
        let middle = rows.start + rows.len() / 2;
        if is_before(middle)? { rows.start = middle + 1 } else { rows.end = middle }
    }
    Ok(rows.start)
}

/// Returns the key of an index of `files` as they are now.
///
/// # Errors
/// A file has changed since it was listed.
fn key_of(files: &SourceFiles, base: &Path, format: &str, parameters: &str) -> Result<IndexKey> {
    let files = scan(files.files(), |file| IndexedFile::of(name_from(&file.path, base), file))?;
    Ok(IndexKey { format: format.into(), parameters: parameters.into(), files })
}

/// Returns how an index of this key fits `files`.
fn fit_of(key: &IndexKey, files: &SourceFiles, base: &Path, was_copied: bool) -> Option<Fit> {
    let files = files.files();
    if key.files.len() != files.len() {
        return None;
    }
    let pairs: Vec<_> = key.files.iter().zip(files).collect();
    let fit = |&(kept, file): &(&IndexedFile, &SourceFile)| kept.fit(name_from(&file.path, base), file, was_copied);
    // The usual case needs no reads.
    if pairs.iter().all(|(kept, file)| kept.is_same(name_from(&file.path, base), file)) {
        return Some(Fit::Same);
    }
    let fits = scan(&pairs, |pair| Ok(fit(pair))).ok()?;
    fits.into_iter().try_fold(Fit::Same, |all, fit| Some(all.max(fit?)))
}

/// Returns the same key with the current inodes and change times of `files`.
fn renewed(key: &IndexKey, files: &SourceFiles) -> IndexKey {
    let files = key.files.iter().zip(files.files()).map(|(kept, file)| kept.renewed(file));
    IndexKey { files: files.collect(), ..key.clone() }
}
