//! [`ZarrArray`]: one array of a store, and its chunks.

use std::path::Path;

use super::cf::Decoding;
use super::chunk_files::ChunkFiles;
use super::chunk_reader::ReadChunks;
use super::metadata::ArrayMetadata;
use super::references::References;
use super::stored_chunk::{StoredChunk, chunk_name, damaged};
use crate::{DType, Error, Result};

/// Chunks of at least this many bytes take longer to decode than a thread takes to start.
const LARGE_CHUNK: usize = 256 << 10;

/// An array of a store.
pub(super) struct ZarrArray {
    /// The name that the user knows it by.
    name: String,
    pub(super) metadata: ArrayMetadata,
    pub(super) decoding: Decoding,
    /// The element that fills missing chunks.
    pub(super) fill: Vec<u8>,
    chunks: ChunkPlaces,
}

/// Where the chunks of an array are stored.
pub(super) enum ChunkPlaces {
    /// One file per chunk, or shards of several chunks.
    Files(ChunkFiles),
    /// In files of other formats.
    References(References),
    /// Read by another library.
    Read(ReadChunks),
}

/// A chunk, decoded.
pub(super) enum Chunk {
    Values(Vec<u8>),
    /// Not stored: all of its elements are the fill value.
    Missing,
}

impl ZarrArray {
    /// Creates the array called `name` from its metadata.
    ///
    /// # Errors
    /// The reason why its attributes are invalid or unsupported.
    pub(super) fn new(
        name: String,
        metadata: ArrayMetadata,
        chunks: ChunkPlaces,
        decode_cf: bool,
    ) -> std::result::Result<Self, String> {
        let decoding = if decode_cf {
            let read = Decoding::of(&metadata);
            read.map_err(|reason| format!("{reason}; pass decode_cf=False to read the numbers as stored"))?
        } else {
            Decoding::none(&metadata)
        };
        let fill = decoding.apply(metadata.fill.clone());
        Ok(Self { name, metadata, decoding, fill, chunks })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the data type of the decoded values.
    pub(super) fn dtype(&self) -> DType {
        self.decoding.dtype
    }

    /// Returns the coordinates of chunk `number`, which counts in C order.
    pub(super) fn place_of(&self, number: usize) -> Vec<usize> {
        unravel(number, &self.metadata.grid())
    }

    /// Returns the size of a chunk in bytes: as stored elements, and as decoded values.
    pub(super) fn chunk_bytes(&self) -> (usize, usize) {
        (self.metadata.chunk_bytes(), self.metadata.chunk_bytes() / self.metadata.dtype.bytes() * self.dtype().bytes())
    }

    /// Reads and decodes chunk `number`.
    ///
    /// # Errors
    /// [`Error::Io`] when its file can't be read; [`Error::Format`] when it is damaged.
    pub(super) fn chunk(&self, number: usize) -> Result<Chunk> {
        let place = self.place_of(number);
        let stored = match &self.chunks {
            ChunkPlaces::Files(files) => files.read(&self.name, &self.metadata, &place)?,
            ChunkPlaces::References(references) => references.read(&self.name, &self.metadata, number, &place)?,
            ChunkPlaces::Read(chunks) => Some(chunks.read(&self.name, &self.metadata, &place)?),
        };
        let Some(StoredChunk { path, bytes, skipped }) = stored else { return Ok(Chunk::Missing) };
        let codecs = &self.metadata.codecs;
        let decoded = codecs.decode(&bytes, &self.metadata.chunk, self.metadata.dtype, skipped).map_err(|reason| {
            damaged(&path, &format!("{} ({})", chunk_name(&self.name, &place), codecs.names()), &reason)
        })?;
        drop(bytes);
        Ok(Chunk::Values(self.decoding.apply(decoded)))
    }

    /// True if decoding a chunk takes longer than starting a thread. Not for readers that other threads may not call.
    pub(super) fn benefits_from_helpers(&self) -> bool {
        !matches!(self.chunks, ChunkPlaces::Read(_)) && self.chunk_bytes().1 >= LARGE_CHUNK
    }

    /// Fails if the array's file is known to have changed since it was opened: cached chunks would hide that.
    ///
    /// # Errors
    /// [`Error::Changed`], or [`Error::Io`] when the file is gone.
    pub(super) fn check(&self) -> Result<()> {
        match &self.chunks {
            ChunkPlaces::Files(_) => Ok(()),
            ChunkPlaces::References(references) => references.check(),
            ChunkPlaces::Read(chunks) => chunks.check(),
        }
    }

    /// The error of an array whose elements have changed since their sizes were read.
    pub(super) fn changed(&self) -> Error {
        let reason = format!("a string of array {:?} has a different length than before", self.name);
        Error::Changed { path: self.path().to_path_buf(), reason }
    }

    /// Returns the file or folder of the array.
    fn path(&self) -> &Path {
        match &self.chunks {
            ChunkPlaces::Files(files) => files.folder(),
            ChunkPlaces::References(references) => references.path(),
            ChunkPlaces::Read(chunks) => chunks.path(),
        }
    }

    /// Asks the operating system to prefetch the file of chunk `number`.
    pub(super) fn announce(&self, number: usize) {
        match &self.chunks {
            ChunkPlaces::Files(files) => files.announce(&self.metadata, &self.place_of(number)),
            ChunkPlaces::References(references) => references.announce(&self.metadata, number),
            ChunkPlaces::Read(_) => {}
        }
    }

    /// Describes where chunk `number` is.
    pub(super) fn origin(&self, number: usize) -> String {
        format!("{}, {}", self.path().display(), chunk_name(&self.name, &self.place_of(number)))
    }
}

/// Returns the C-order index of `place` in a grid.
pub(super) fn ravel(place: &[usize], grid: &[usize]) -> usize {
    place.iter().zip(grid).fold(0, |number, (place, size)| number * size + place)
}

fn unravel(mut number: usize, grid: &[usize]) -> Vec<usize> {
    let mut place = vec![0; grid.len()];
    for (place, size) in place.iter_mut().zip(grid).rev() {
        *place = number % size;
        number /= size;
    }
    place
}
