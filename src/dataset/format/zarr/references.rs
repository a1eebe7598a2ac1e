//! [`References`]: the chunks of an array that are stored in files of another format, such as HDF5.

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

/// The approximate size of the chunks into which a contiguous array is divided.
const PIECE_BYTES: usize = 1 << 20;

/// Where the chunks of an array are stored.
pub(crate) struct References {
    /// The file that contains the references.
    path: PathBuf,
    sources: Vec<ReferenceSource>,
    layout: ReferenceLayout,
    /// By source number: the state of a [`ReferenceSource::File`] at the first read.
    seen: Mutex<HashMap<u32, FileFacts>>,
}

/// A source of chunks.
pub enum ReferenceSource {
    /// A file that must not change after it was opened.
    Known(KnownFile),
    /// A file not checked at opening (references may name millions). It must not change after its first read.
    File(PathBuf),
    /// Bytes stored inline, with the references.
    Inline(Vec<u8>),
}

/// A file, and its state when the dataset was opened.
pub struct KnownFile(SourceFile);

/// How chunks are laid out in their sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceLayout {
    /// Chunk n of the only source starts at `offset + n * step`. Chunks are uncompressed; elements past the end of the
    /// array may be missing from the last one.
    Regular {
        /// The offset of chunk 0 in bytes.
        offset: u64,
        /// The distance between the starts of adjacent chunks, in bytes.
        step: u64,
    },
    /// Chunks listed by number; chunks that are not listed are not stored.
    Listed(Vec<Reference>),
}

/// Where a chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The number of the chunk, in C order.
    pub number: u64,
    /// The index of its source.
    pub source: u32,
    /// Bit n is set if codec n was not applied to this chunk.
    pub skipped: u32,
    /// Byte offset in the source.
    pub offset: u64,
    /// Size in bytes. `None`: to the end of the source.
    pub bytes: Option<u64>,
}

impl ReferenceSource {
    /// Creates the source for the file at `path`, in its current state.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not exist; [`Error::Format`] when it is not a regular file.
    pub fn known(path: &Path) -> Result<Self> {
        let file = SourceFile { path: path.to_path_buf(), facts: FileFacts::of(&look_at(path)?), sums: None };
        Ok(Self::Known(KnownFile(file)))
    }
}

impl References {
    /// Creates references to chunks of `sources`, laid out as in `layout`. `path` is the file with the references.
    pub(crate) fn new(path: PathBuf, sources: Vec<ReferenceSource>, mut layout: ReferenceLayout) -> Self {
        if let ReferenceLayout::Listed(chunks) = &mut layout {
            chunks.sort_unstable_by_key(|chunk| chunk.number);
        }
        Self { path, sources, layout, seen: Mutex::default() }
    }

    /// Fails if the file of the chunks was modified or replaced.
    ///
    /// # Errors
    /// [`Error::Changed`], or [`Error::Io`] when the file is gone.
    pub(super) fn check(&self) -> Result<()> {
        match &self.sources[..] {
            [ReferenceSource::Known(KnownFile(known))] => known.check(&FileFacts::of(&look_at(&known.path)?)),
            _ => Ok(()),
        }
    }

    /// Returns the file that contains the references.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the stored bytes of chunk `number` of `array`, at `place`. Returns `None` if it is not stored.
    ///
    /// # Errors
    /// [`Error::Io`] when a file can't be read, [`Error::Changed`] when it was modified, [`Error::Format`] when it
    /// lacks the bytes.
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
            return Err(damaged(&self.path, &name, "its source file is unknown"));
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

    /// Fails if a source has changed since its first read: its chunks would mix two versions.
    fn see(&self, source: u32, path: &Path, now: FileFacts) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *seen.entry(source).or_insert(now);
        drop(seen);
        SourceFile { path: path.to_path_buf(), facts: first, sums: None }.check(&now)
    }

    /// Returns the reference of chunk `number`.
    fn chunk(&self, array: &ArrayMetadata, number: usize) -> Option<Reference> {
        match &self.layout {
            ReferenceLayout::Regular { offset, step } => {
                let bytes = array.chunk_bytes() as u64;
                let whole = array.shape.iter().product::<usize>() as u64 * array.dtype.bytes() as u64;
                // Only the last chunk of a contiguous array can be short.
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

    /// Asks the operating system to prefetch chunk `number`.
    pub(super) fn announce(&self, array: &ArrayMetadata, number: usize) {
        let Some(chunk) = self.chunk(array, number) else { return };
        let path = match self.sources.get(chunk.source as usize) {
            Some(ReferenceSource::Known(KnownFile(SourceFile { path, .. })) | ReferenceSource::File(path)) => path,
            _ => return,
        };
        // Errors are ignored here: the read reports them.
        if let Ok(file) = open_regular(path) {
            let _ = fadvise(&file, chunk.offset, chunk.bytes.and_then(NonZeroU64::new), Advice::WillNeed);
        }
    }
}

/// Returns the shape of chunks of about [`PIECE_BYTES`] whose elements are contiguous in an array of `shape`, so that
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
        // Only along the first axis may the last chunk be short; along others it would leave a gap.
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
    fn parts_of_a_chunk_are_concatenated() {
        assert_eq!(pieces(&[1_000_003], 8), [131_072]);
        assert_eq!(pieces(&[10, 4], 4), [10, 4]);
        assert_eq!(pieces(&[1000, 721, 1440], 4), [1, 103, 1440]);
        assert_eq!(pieces(&[0, 3], 4), [1, 3]);
        assert_eq!(pieces(&[2, 524_309], 4), [1, 1]);
        assert_eq!(pieces(&[3000, 1000], 2), [524, 1000]);
        assert_eq!(pieces(&[], 2), [0_usize; 0]);
    }
}
