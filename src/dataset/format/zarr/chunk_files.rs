//! [`ChunkFiles`]: the chunks of a Zarr array, one per file or several per shard.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use super::array::ravel;
use super::folder_store::read_metadata;
use super::metadata::{ArrayMetadata, Shards};
use super::stored_chunk::{StoredChunk, chunk_name, damaged, length, most_bytes, read_range};
use crate::dataset::format::block::cache::BlockCache;
use crate::dataset::format::file::data_file::open_regular;
use crate::{DType, Error, Result};

/// The cache size for shard indexes, in bytes.
const INDEX_BYTES: usize = 64 << 20;

/// The files of the chunks of an array.
pub(super) struct ChunkFiles {
    folder: PathBuf,
    /// By shard number: the offset and length of each of its chunks. `None` if the shard does not exist.
    indexes: BlockCache<usize, Option<Vec<u64>>>,
}

impl ChunkFiles {
    /// Creates the files of the array in `folder`.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, indexes: BlockCache::new(INDEX_BYTES) }
    }

    /// Returns the folder of the array.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the stored bytes of the chunk of `array` at `place`. Returns `None` if it is not stored.
    pub(super) fn read(&self, name: &str, array: &ArrayMetadata, place: &[usize]) -> Result<Option<StoredChunk>> {
        let chunk = chunk_name(name, place);
        let most = most_bytes(array);
        let Some(shards) = &array.shards else {
            let path = self.path_of(array, place);
            let Some(file) = self.open(array, &path)? else { return Ok(None) };
            let bytes = read_range(&file, &path, &chunk, (0, length(&file, &path)?), most)?;
            return Ok(Some(StoredChunk { path, bytes, skipped: 0 }));
        };
        let shard: Vec<usize> = place.iter().zip(&shards.chunks).map(|(place, chunks)| place / chunks).collect();
        let within: Vec<usize> = place.iter().zip(&shards.chunks).map(|(place, chunks)| place % chunks).collect();
        let path = self.path_of(array, &shard);
        let grid: Vec<usize> =
            array.grid().iter().zip(&shards.chunks).map(|(size, chunks)| size.div_ceil(*chunks)).collect();
        let index = self.indexes.get(&ravel(&shard, &grid), || {
            let index = self.index(array, &path, &format!("the index of shard {shard:?} of array {name:?}"), shards)?;
            let bytes = index.as_ref().map_or(1, |index| index.len() * 8);
            Ok((index, bytes))
        })?;
        let Some(index) = &*index else { return Ok(None) };
        let entry = 2 * ravel(&within, &shards.chunks);
        let range = (index[entry], index[entry + 1]);
        if range == (u64::MAX, u64::MAX) {
            return Ok(None);
        }
        let Some(file) = self.open(array, &path)? else { return Ok(None) };
        let bytes = read_range(&file, &path, &chunk, range, most)?;
        Ok(Some(StoredChunk { path, bytes, skipped: 0 }))
    }

    /// Reads the index of the shard at `path`.
    fn index(&self, array: &ArrayMetadata, path: &Path, name: &str, shards: &Shards) -> Result<Option<Vec<u64>>> {
        let Some(file) = self.open(array, path)? else { return Ok(None) };
        let shape = [shards.chunks.iter().product(), 2];
        let sums = 4 * shards.index.packings.len() as u64;
        let bytes = shape[0] as u64 * 16 + sums;
        let length = length(&file, path)?;
        let start = length.checked_sub(bytes);
        let start =
            start.ok_or_else(|| damaged(path, name, &format!("it has {bytes} bytes, but the file only {length}")))?;
        let start = if shards.index_is_first { 0 } else { start };
        let stored = read_range(&file, path, name, (start, bytes), bytes)?;
        let index = shards.index.decode(&stored, &shape, DType::UInt64, 0);
        let index = index.map_err(|reason| damaged(path, name, &reason))?;
        Ok(Some(index.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number)).collect()))
    }

    /// Opens the file at `path`. Returns `None` if it does not exist, but only while the metadata does: if the whole
    /// array were gone (an unmounted disk), every chunk would silently read as fill values.
    fn open(&self, array: &ArrayMetadata, path: &Path) -> Result<Option<File>> {
        match open_regular(path) {
            Ok(file) => Ok(Some(file)),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                read_metadata(&self.folder, array.version).map(|_| None)
            }
            Err(error) => Err(error),
        }
    }

    fn path_of(&self, array: &ArrayMetadata, place: &[usize]) -> PathBuf {
        self.folder.join(array.names.path(place))
    }

    /// Asks the operating system to prefetch the file of the chunk at `place`.
    pub(super) fn announce(&self, array: &ArrayMetadata, place: &[usize]) {
        if array.shards.is_none()
            && let Ok(file) = open_regular(&self.path_of(array, place))
        {
            // Errors are ignored here: the read reports them.
            let _ = fadvise(&file, 0, None, Advice::WillNeed);
        }
    }
}
