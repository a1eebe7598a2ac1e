//! [`ZarrArray`]: one array of a store, and its chunks.

use std::path::Path;

use super::cf::Decoding;
use super::chunk_files::ChunkFiles;
use super::chunk_reader::ReadChunks;
use super::metadata::ArrayMetadata;
use super::references::References;
use super::stored_chunk::{StoredChunk, chunk_name, damaged};
use crate::{DType, Error, Result};

/// From this size in bytes on, a chunk takes longer to decode than a thread to start.
const LARGE_CHUNK: usize = 256 << 10;

/// An array of a store.
pub(super) struct ZarrArray {
    /// As the user calls it.
    name: String,
    pub(super) metadata: ArrayMetadata,
    pub(super) decoding: Decoding,
    /// The value that a missing chunk has everywhere.
    pub(super) fill: Vec<u8>,
    chunks: ChunkPlaces,
}

/// Where the chunks of an array are stored.
pub(super) enum ChunkPlaces {
    /// In files of their own, or in shards.
    Files(ChunkFiles),
    /// In files of another format.
    References(References),
    /// Where another library finds them.
    Read(ReadChunks),
}

/// A chunk, decoded.
pub(super) enum Chunk {
    Values(Vec<u8>),
    /// It is not stored: all of its values are fill values.
    Missing,
}

impl ZarrArray {
    /// The array called `name`, whose metadata was read.
    ///
    /// # Errors
    /// What is wrong with its attributes.
    pub(super) fn new(
        name: String,
        metadata: ArrayMetadata,
        chunks: ChunkPlaces,
        decode_cf: bool,
    ) -> std::result::Result<Self, String> {
        let decoding = if decode_cf {
            let read = Decoding::of(&metadata);
            read.map_err(|reason| format!("{reason}; pass decode_cf=False for the numbers as they are stored"))?
        } else {
            Decoding::none(&metadata)
        };
        let fill = decoding.apply(metadata.fill.clone());
        Ok(Self { name, metadata, decoding, fill, chunks })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Of the values.
    pub(super) fn dtype(&self) -> DType {
        self.decoding.dtype
    }

    /// The coordinates of chunk `number`, in C order.
    pub(super) fn place_of(&self, number: usize) -> Vec<usize> {
        unravel(number, &self.metadata.grid())
    }

    /// The size of a chunk: of its stored elements, and of its values.
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

    /// True if decoding a chunk takes longer than starting a thread. What another library reads may not be for any thread.
    pub(super) fn is_worth_helping(&self) -> bool {
        !matches!(self.chunks, ChunkPlaces::Read(_)) && self.chunk_bytes().1 >= LARGE_CHUNK
    }

    /// Fails if the array's file is known to have changed since it was opened: chunks that are in the cache would hide it.
    ///
    /// # Errors
    /// [`Error::Changed`], or [`Error::Io`] when it is gone.
    pub(super) fn check(&self) -> Result<()> {
        match &self.chunks {
            ChunkPlaces::Files(_) => Ok(()),
            ChunkPlaces::References(references) => references.check(),
            ChunkPlaces::Read(chunks) => chunks.check(),
        }
    }

    /// The error of an array that has other elements than a moment ago.
    pub(super) fn changed(&self) -> Error {
        let reason = format!("a text of array {:?} has another length", self.name);
        Error::Changed { path: self.path().to_path_buf(), reason }
    }

    /// The file or the folder that has it.
    fn path(&self) -> &Path {
        match &self.chunks {
            ChunkPlaces::Files(files) => files.folder(),
            ChunkPlaces::References(references) => references.path(),
            ChunkPlaces::Read(chunks) => chunks.path(),
        }
    }

    /// Has the operating system begin to read the file of chunk `number`.
    pub(super) fn announce(&self, number: usize) {
        match &self.chunks {
            ChunkPlaces::Files(files) => files.announce(&self.metadata, &self.place_of(number)),
            ChunkPlaces::References(references) => references.announce(&self.metadata, number),
            ChunkPlaces::Read(_) => {}
        }
    }

    /// Where chunk `number` is, in words.
    pub(super) fn origin(&self, number: usize) -> String {
        format!("{}, {}", self.path().display(), chunk_name(&self.name, &self.place_of(number)))
    }
}

/// The number of `place` in a grid, in C order.
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
