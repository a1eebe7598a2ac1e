//! [`ReadChunks`]: the chunks of an array that another library reads and decodes.

use std::path::Path;

use super::metadata::ArrayMetadata;
use super::stored_chunk::{StoredChunk, chunk_name, damaged};
use crate::dataset::format::file::source_files::{FileFacts, SourceFile, look_at};
use crate::{Error, Result};

/// Reads parts of an array. Threads may share it.
pub trait ChunkReader: Send + Sync {
    /// Returns the elements of the chunk of `shape` whose first element is at `start`, in the array's byte order.
    /// Elements past the end of the array may have any value.
    ///
    /// # Errors
    /// [`ChunkError`].
    fn read(&self, start: &[usize], shape: &[usize]) -> std::result::Result<Vec<u8>, ChunkError>;
}

/// Why a chunk was not read.
pub enum ChunkError {
    /// The chunk is damaged, for this reason.
    Damaged(String),
    /// Something else failed.
    Other(Error),
}

/// The chunks of an array that a [`ChunkReader`] reads.
pub struct ReadChunks {
    /// The file that contains the chunks. It must not change while it is read.
    file: SourceFile,
    reader: Box<dyn ChunkReader>,
}

impl ReadChunks {
    /// Creates the chunks of an array in the file at `path`, in its current state.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not exist; [`Error::Format`] when it is not a regular file.
    pub fn of(path: &Path, reader: Box<dyn ChunkReader>) -> Result<Self> {
        let file = SourceFile { path: path.to_path_buf(), facts: FileFacts::of(&look_at(path)?), sums: None };
        Ok(Self { file, reader })
    }

    /// Fails if the file was written to or replaced.
    ///
    /// # Errors
    /// [`Error::Changed`], or [`Error::Io`] when the file is gone.
    pub(super) fn check(&self) -> Result<()> {
        self.file.check(&FileFacts::of(&look_at(&self.file.path)?))
    }

    /// Returns the file that contains the chunks.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Reads the elements of the chunk of `array` at `place`.
    ///
    /// # Errors
    /// [`Error::Format`] when it is damaged; errors of the reader.
    pub(super) fn read(&self, name: &str, array: &ArrayMetadata, place: &[usize]) -> Result<StoredChunk> {
        self.check()?;
        let start: Vec<usize> = place.iter().zip(&array.chunk).map(|(place, chunk)| place * chunk).collect();
        match self.reader.read(&start, &array.chunk) {
            Ok(bytes) => Ok(StoredChunk { path: self.file.path.clone(), bytes, skipped: 0 }),
            Err(ChunkError::Damaged(reason)) => Err(damaged(&self.file.path, &chunk_name(name, place), &reason)),
            Err(ChunkError::Other(error)) => Err(error),
        }
    }
}
