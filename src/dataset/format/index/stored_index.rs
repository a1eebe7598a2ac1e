//! [`StoredIndex`]: the file that stores an index, verified as a whole when it is opened.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::columns::IndexColumn;
use super::file::{
    IndexContents, IndexHeader, IndexKey, LONGEST_HEADER, PRELUDE, decode, encode, header_bytes, is_other_version,
    lay_out,
};
use super::freshness::Fit;
use crate::dataset::format::file::access::{FileAccess, is_owned_by_others};
use crate::dataset::format::file::data_file::open_at_once;
use crate::dataset::format::file::new_file::NewFile;
use crate::dataset::format::file::notices::notice;
use crate::dataset::format::file::scan::scan;
use crate::memory::Segment;
use crate::watch;
use crate::{Error, Result};

/// Bytes that a thread checks at a time.
const PIECE: u64 = 4 << 20;

/// Bytes that are read at a time.
const READ: usize = 256 << 10;

/// An index whose checksums have been verified.
pub(super) struct StoredIndex {
    file: File,
    pub(super) header: IndexHeader,
    header_bytes: u64,
    pub(super) segment: Arc<Segment>,
    pub(super) inode: u64,
}

impl StoredIndex {
    /// Opens the index at `path`, if there is one whose key and copied state pass `fits`. A damaged one is removed,
    /// with a notice.
    ///
    /// # Errors
    /// The error of the watcher.
    pub(super) fn open(path: &Path, fits: impl FnOnce(&IndexKey, bool) -> Option<Fit>) -> Result<Option<(Self, Fit)>> {
        let Ok(file) = open_at_once(path) else { return Ok(None) };
        let Some(metadata) = file.metadata().ok().filter(fs::Metadata::is_file) else { return Ok(None) };
        if is_owned_by_others(&metadata, path) {
            return Ok(None);
        }
        match Self::read(path, file, &metadata, fits) {
            // The caller was interrupted before the index was checked.
            Err(error @ Error::User(_)) => Err(error),
            Err(_) => {
                notice(format!(
                    "{}: this index is damaged and is created again; the data is not affected",
                    path.display()
                ));
                let _ = fs::remove_file(path);
                Ok(None)
            }
            found => found,
        }
    }

    /// Reads the index in `file`; `None` if it does not fit.
    ///
    /// # Errors
    /// It is damaged; the error of the watcher.
    fn read(
        path: &Path,
        mut file: File,
        metadata: &fs::Metadata,
        fits: impl FnOnce(&IndexKey, bool) -> Option<Fit>,
    ) -> Result<Option<(Self, Fit)>> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let damaged = || io(io::Error::from(io::ErrorKind::InvalidData));
        let mut header = vec![0; PRELUDE];
        file.read_exact(&mut header).map_err(io)?;
        if is_other_version(&header) {
            return Ok(None);
        }
        let bytes = header_bytes(&header).filter(|&bytes| bytes as u64 <= metadata.len() && bytes <= LONGEST_HEADER);
        header.resize(bytes.ok_or_else(damaged)?, 0);
        file.read_exact(&mut header[PRELUDE..]).map_err(io)?;
        let header_bytes = header.len() as u64;
        let header = decode(&header, metadata.len()).ok_or_else(damaged)?;
        let Some(fit) = fits(&header.key, header.contents.inode != metadata.ino()) else { return Ok(None) };
        if sum_of(&file, header_bytes, metadata.len())? != header.contents.sum {
            return Err(damaged());
        }
        let bytes = usize::try_from(metadata.len()).map_err(|error| io(io::Error::other(error)))?;
        let segment = Arc::new(Segment::map_file(&file, bytes).map_err(io)?);
        Ok(Some((Self { file, header, header_bytes, segment, inode: metadata.ino() }, fit)))
    }

    /// Writes a copy with this key, which describes the files as they are now, to `path`.
    ///
    /// # Errors
    /// It can't be written there.
    pub(super) fn renew(&self, path: &Path, key: IndexKey, access: FileAccess) -> io::Result<()> {
        let new = NewFile::create(path)?;
        let contents = IndexContents { inode: new.file().metadata()?.ino(), ..self.header.contents };
        let header = encode(&IndexHeader { key, columns: self.header.columns.clone(), contents });
        if header.len() as u64 != self.header_bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (mut from, mut into) = (&self.file, new.file());
        into.write_all(&header)?;
        from.seek(SeekFrom::Start(self.header_bytes))?;
        io::copy(&mut from, &mut into)?;
        new.put(path.file_name().unwrap_or_default(), access)
    }
}

/// Writes an index to `path`, either completely or not at all.
///
/// # Errors
/// It can't be written there; the error of the watcher.
pub(super) fn write_index(path: &Path, key: IndexKey, columns: &[IndexColumn], access: FileAccess) -> Result<()> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let new = NewFile::create(path).map_err(io)?;
    let forms: Vec<_> = columns.iter().map(IndexColumn::form).collect();
    let (places, bytes) = lay_out(&key, &forms);
    let contents = IndexContents { inode: new.file().metadata().map_err(io)?.ino(), bytes, sum: 0 };
    let mut header = IndexHeader { key, columns: places, contents };
    let empty = encode(&header);
    new.file().write_all(&empty).map_err(io)?;
    let mut file = BufWriter::with_capacity(1 << 20, Summed { file: new.file(), sum: 0 });
    let mut written = empty.len();
    for (column, place) in columns.iter().zip(&header.columns) {
        file.write_all(&vec![0; place.offset - written]).map_err(io)?;
        column.visit_bytes(|bytes| {
            watch::advance(0)?;
            file.write_all(bytes).map_err(io)
        })?;
        written = place.offset + place.len * place.bytes_per_number;
    }
    header.contents.sum = file.into_inner().map_err(|error| io(error.into_error()))?.sum;
    new.file().write_all_at(&encode(&header), 0).map_err(io)?;
    new.put(path.file_name().unwrap_or_default(), access).map_err(io)
}

/// Computes the CRC-32C of the written bytes.
struct Summed<'a> {
    file: &'a File,
    sum: u32,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum = crc32c::crc32c_append(self.sum, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// CRC-32C of the bytes from `start` to `end`.
fn sum_of(file: &File, start: u64, end: u64) -> Result<u32> {
    let pieces: Vec<(u64, u64)> =
        (start..end).step_by(PIECE as usize).map(|piece| (piece, (end - piece).min(PIECE))).collect();
    let sums = scan(&pieces, |&(start, bytes)| {
        let mut buffer = vec![0; READ.min(bytes as usize)];
        let (mut sum, mut done) = (0, 0);
        while done < bytes {
            let part = &mut buffer[..READ.min((bytes - done) as usize)];
            let io = |source| Error::Io { path: "index".into(), source };
            file.read_exact_at(part, start + done).map_err(io)?;
            sum = crc32c::crc32c_append(sum, part);
            done += part.len() as u64;
        }
        Ok((sum, bytes as usize))
    })?;
    Ok(sums.into_iter().fold(0, |all, (sum, bytes)| crc32c::crc32c_combine(all, sum, bytes)))
}
