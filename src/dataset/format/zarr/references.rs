//! [`References`]: the chunks of an array that lie in files of another format, such as HDF5.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Advice, fadvise};

use super::metadata::ArrayMetadata;
use super::stored_chunk::{StoredChunk, chunk_name, damaged, most_bytes, read_range};
use crate::dataset::format::file::data_file::open_regular;
use crate::dataset::format::file::source_files::{FileFacts, SourceFile, look_at};
use crate::{Error, Result};

/// Elements that lie in one piece are read as chunks of about this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Where the chunks of an array lie.
pub(crate) struct References {
    /// The file that has the references.
    path: PathBuf,
    sources: Vec<ReferenceSource>,
    layout: ReferenceLayout,
    /// By source, its file when a chunk of it was first read, if it was not looked at before.
    seen: Mutex<HashMap<u32, FileFacts>>,
}

/// What chunks are read from.
pub enum ReferenceSource {
    /// A file that must not change while it is read.
    Known(KnownFile),
    /// A file that was not looked at: references may name millions. It must not change once it was read.
    File(PathBuf),
    /// Bytes that are written next to the references.
    Inline(Vec<u8>),
}

/// A file as it was when it was looked at.
pub struct KnownFile(SourceFile);

/// How chunks lie in their sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceLayout {
    /// Chunk n of the only source starts at `offset + n * step`. All have their elements as they are; the last may lack those
    /// that are past the end of the array.
    Regular {
        /// The first byte of chunk 0.
        offset: u64,
        /// From the first byte of a chunk to that of the next.
        step: u64,
    },
    /// Chunks by number, in order; those that are not listed are not stored.
    Listed(Vec<Reference>),
}

/// Where one chunk lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The number of the chunk, in C order.
    pub number: u64,
    /// The number of its source.
    pub source: u32,
    /// Bit n is set if codec n was not applied to this chunk.
    pub skipped: u32,
    /// Its first byte in the source.
    pub offset: u64,
    /// The number of its bytes; the rest of the source if there is none.
    pub bytes: Option<u64>,
}

impl ReferenceSource {
    /// The file at `path`, as it is now.
    ///
    /// # Errors
    /// [`Error::Io`] when it is not there; [`Error::Format`] when it is not a regular file.
    pub fn known(path: &Path) -> Result<Self> {
        let file = SourceFile { path: path.to_path_buf(), facts: FileFacts::of(&look_at(path)?), sums: None };
        Ok(Self::Known(KnownFile(file)))
    }
}

impl References {
    /// Chunks of `sources` that lie as `layout` says. `path` is the file that says so.
    pub(crate) fn new(path: PathBuf, sources: Vec<ReferenceSource>, mut layout: ReferenceLayout) -> Self {
        if let ReferenceLayout::Listed(chunks) = &mut layout {
            chunks.sort_unstable_by_key(|chunk| chunk.number);
        }
        Self { path, sources, layout, seen: Mutex::default() }
    }

    /// Fails if the file of the chunks was written to or replaced.
    ///
    /// # Errors
    /// [`Error::Changed`], or [`Error::Io`] when it is gone.
    pub(super) fn check(&self) -> Result<()> {
        match &self.sources[..] {
            [ReferenceSource::Known(KnownFile(known))] => known.check(&FileFacts::of(&look_at(&known.path)?)),
            _ => Ok(()),
        }
    }

    /// The file that has the references.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The stored bytes of chunk `number` of `array`, which is at `place`. Nothing where it is not stored.
    ///
    /// # Errors
    /// [`Error::Io`] when a file can't be read, [`Error::Changed`] when it was written to, [`Error::Format`] when it does not
    /// have the bytes.
    pub(super) fn read(
        &self,
        name: &str,
        array: &ArrayMetadata,
        number: usize,
        place: &[usize],
    ) -> Result<Option<StoredChunk>> {
        let Some(chunk) = self.chunk(array, number) else { return Ok(None) };
        let name = chunk_name(name, place);
        let Some(source) = self.sources.get(chunk.source as usize) else {
            return Err(damaged(&self.path, &name, "its source is not listed"));
        };
        let (path, mut bytes) = match source {
            ReferenceSource::Inline(bytes) => (self.path.clone(), bytes.clone()),
            ReferenceSource::Known(KnownFile(SourceFile { path, .. })) | ReferenceSource::File(path) => {
                let file = open_regular(path)?;
                let found = file.metadata().map_err(|source| Error::Io { path: path.clone(), source })?;
                let now = FileFacts::of(&found);
                match source {
                    ReferenceSource::Known(KnownFile(known)) => known.check(&now)?,
                    _ => self.see(chunk.source, path, now)?,
                }
                let bytes = chunk.bytes.unwrap_or_else(|| found.len().saturating_sub(chunk.offset));
                (path.clone(), read_range(&file, path, &name, (chunk.offset, bytes), most_bytes(array))?)
            }
        };
        if matches!(self.layout, ReferenceLayout::Regular { .. }) {
            bytes.resize(array.chunk_bytes(), 0);
        }
        Ok(Some(StoredChunk { path, bytes, skipped: chunk.skipped }))
    }

    /// Fails if the file of a source is another than when it was first read: its chunks would be of two versions.
    fn see(&self, source: u32, path: &Path, now: FileFacts) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *seen.entry(source).or_insert(now);
        drop(seen);
        SourceFile { path: path.to_path_buf(), facts: first, sums: None }.check(&now)
    }

    /// Where chunk `number` lies.
    fn chunk(&self, array: &ArrayMetadata, number: usize) -> Option<Reference> {
        match &self.layout {
            ReferenceLayout::Regular { offset, step } => {
                let bytes = array.chunk_bytes() as u64;
                let whole = array.shape.iter().product::<usize>() as u64 * array.dtype.bytes() as u64;
                // Only pieces of one array without gaps can be short.
                let left = if *step == bytes { whole.saturating_sub(number as u64 * bytes) } else { bytes };
                Some(Reference {
                    number: number as u64,
                    source: 0,
                    skipped: 0,
                    offset: offset.saturating_add(step.saturating_mul(number as u64)),
                    bytes: Some(bytes.min(left)),
                })
            }
            ReferenceLayout::Listed(chunks) => {
                let place = chunks.binary_search_by_key(&(number as u64), |chunk| chunk.number).ok()?;
                Some(chunks[place])
            }
        }
    }

    /// Has the operating system begin to read chunk `number`.
    pub(super) fn announce(&self, array: &ArrayMetadata, number: usize) {
        let Some(chunk) = self.chunk(array, number) else { return };
        let path = match self.sources.get(chunk.source as usize) {
            Some(ReferenceSource::Known(KnownFile(SourceFile { path, .. })) | ReferenceSource::File(path)) => path,
            _ => return,
        };
        // Whatever is wrong will be said when it is read.
        if let Ok(file) = open_regular(path) {
            let _ = fadvise(&file, chunk.offset, chunk.bytes.and_then(NonZeroU64::new), Advice::WillNeed);
        }
    }
}

/// The shape of chunks of about [`PIECE_BYTES`] whose elements lie one after the other in an array of `shape`, so that
/// chunk n starts where chunk n - 1 ends.
pub(crate) fn pieces(shape: &[usize], element: usize) -> Vec<usize> {
    let mut chunk: Vec<usize> = vec![1; shape.len()];
    let mut bytes = element;
    for axis in (0..shape.len()).rev() {
        let size = shape[axis].max(1);
        let room = (PIECE_BYTES / bytes).max(1);
        if room >= size {
            chunk[axis] = size;
            bytes = bytes.saturating_mul(size);
            continue;
        }
        // Along the first axis the last chunk may be short; another one would leave a gap.
        chunk[axis] =
            if axis == 0 { room } else { (1..=room).rev().find(|room| size.is_multiple_of(*room)).unwrap_or(1) };
        break;
    }
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other() {
        assert_eq!(pieces(&[1_000_003], 8), [131_072]);
        assert_eq!(pieces(&[10, 4], 4), [10, 4]);
        assert_eq!(pieces(&[1000, 721, 1440], 4), [1, 103, 1440]);
        assert_eq!(pieces(&[0, 3], 4), [1, 3]);
        assert_eq!(pieces(&[2, 524_309], 4), [1, 1]);
        assert_eq!(pieces(&[3000, 1000], 2), [524, 1000]);
        assert_eq!(pieces(&[], 2), [0_usize; 0]);
    }
}
