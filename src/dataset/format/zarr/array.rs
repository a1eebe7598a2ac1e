//! [`ZarrArray`]: one array of a store, and its chunks.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use super::cf::Decoding;
use super::metadata::{ArrayMetadata, Shards};
use super::store::read_metadata;
use crate::dataset::format::block::cache::BlockCache;
use crate::dataset::format::file::data_file::open_regular;
use crate::dataset::format::file::room::make_room;
use crate::{DType, Error, Result};

/// So many bytes of the indexes of shards are kept.
const INDEX_BYTES: usize = 64 << 20;

/// Maximum number of bytes that compression adds to a chunk where it does not help.
const OVERHEAD: u64 = 1 << 20;

/// An array of a store.
pub(super) struct ZarrArray {
    /// As the user calls it, and where it is.
    name: String,
    folder: PathBuf,
    pub(super) metadata: ArrayMetadata,
    pub(super) decoding: Decoding,
    /// The value that a missing chunk has everywhere.
    pub(super) fill: Vec<u8>,
    /// By number of a shard: where each chunk begins in it and how long it is. Nothing where there is no shard.
    indexes: BlockCache<usize, Option<Vec<u64>>>,
}

/// A chunk, decoded.
pub(super) enum Chunk {
    Values(Vec<u8>),
    /// It is not stored: all of its values are fill values.
    Missing,
}

impl ZarrArray {
    /// The array in `folder`, whose metadata was read.
    ///
    /// # Errors
    /// What is wrong with its attributes.
    pub(super) fn new(
        name: String,
        folder: PathBuf,
        metadata: ArrayMetadata,
        decode_cf: bool,
    ) -> std::result::Result<Self, String> {
        let decoding = if decode_cf {
            let read = Decoding::of(&metadata);
            read.map_err(|reason| format!("{reason}; pass decode_cf=False for the numbers as they are stored"))?
        } else {
            Decoding::none(&metadata)
        };
        let fill = decoding.apply(metadata.fill.clone());
        Ok(Self { name, folder, metadata, decoding, fill, indexes: BlockCache::new(INDEX_BYTES) })
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
        let elements: usize = self.metadata.chunk.iter().product();
        (elements * self.metadata.dtype.bytes(), elements * self.dtype().bytes())
    }

    /// Reads and decodes chunk `number`.
    ///
    /// # Errors
    /// [`Error::Io`] when its file can't be read; [`Error::Format`] when it is damaged.
    pub(super) fn chunk(&self, number: usize) -> Result<Chunk> {
        let place = self.place_of(number);
        let Some((path, stored)) = self.stored(&place)? else { return Ok(Chunk::Missing) };
        let codecs = &self.metadata.codecs;
        let decoded = codecs.decode(&stored, &self.metadata.chunk, self.metadata.dtype).map_err(|reason| {
            let codecs = codecs.names();
            self.damaged(&path, &format!("chunk {place:?} of array {:?} ({codecs}): {reason}", self.name))
        })?;
        drop(stored);
        Ok(Chunk::Values(self.decoding.apply(decoded)))
    }

    /// The file of the chunk at `place`, and its stored bytes. Nothing where it is not stored.
    fn stored(&self, place: &[usize]) -> Result<Option<(PathBuf, Vec<u8>)>> {
        let most = self.chunk_bytes().0 as u64;
        let most = most + most / 8 + OVERHEAD;
        let Some(shards) = &self.metadata.shards else {
            let path = self.path_of(place);
            let Some(file) = self.open(&path)? else { return Ok(None) };
            let bytes = length(&file, &path)?;
            let stored = self.read(&file, &path, place, (0, bytes), most)?;
            return Ok(Some((path, stored)));
        };
        let shard: Vec<usize> = place.iter().zip(&shards.chunks).map(|(place, chunks)| place / chunks).collect();
        let within: Vec<usize> = place.iter().zip(&shards.chunks).map(|(place, chunks)| place % chunks).collect();
        let path = self.path_of(&shard);
        let grid: Vec<usize> =
            self.metadata.grid().iter().zip(&shards.chunks).map(|(size, chunks)| size.div_ceil(*chunks)).collect();
        let index = self.indexes.get(&ravel(&shard, &grid), || {
            let index = self.index(&path, &shard, shards)?;
            let bytes = index.as_ref().map_or(1, |index| index.len() * 8);
            Ok((index, bytes))
        })?;
        let Some(index) = &*index else { return Ok(None) };
        let entry = 2 * ravel(&within, &shards.chunks);
        let range = (index[entry], index[entry + 1]);
        if range == (u64::MAX, u64::MAX) {
            return Ok(None);
        }
        let Some(file) = self.open(&path)? else { return Ok(None) };
        let stored = self.read(&file, &path, place, range, most)?;
        Ok(Some((path, stored)))
    }

    /// Reads the index of the shard at `place`.
    fn index(&self, path: &Path, place: &[usize], shards: &Shards) -> Result<Option<Vec<u64>>> {
        let Some(file) = self.open(path)? else { return Ok(None) };
        let shape = [shards.chunks.iter().product(), 2];
        let sums = 4 * shards.index.packings.len() as u64;
        let bytes = shape[0] as u64 * 16 + sums;
        let length = length(&file, path)?;
        let refuse = |reason: String| {
            self.damaged(path, &format!("the index of shard {place:?} of array {:?}: {reason}", self.name))
        };
        let start = length.checked_sub(bytes);
        let start = start.ok_or_else(|| refuse(format!("it has {bytes} bytes, but the file only {length}")))?;
        let start = if shards.index_is_first { 0 } else { start };
        let stored = self.read(&file, path, place, (start, bytes), bytes)?;
        let index = shards.index.decode(&stored, &shape, DType::UInt64).map_err(refuse)?;
        Ok(Some(index.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number)).collect()))
    }

    fn read(&self, file: &File, path: &Path, place: &[usize], range: (u64, u64), most: u64) -> Result<Vec<u8>> {
        let (start, bytes) = range;
        let refuse =
            |reason: String| self.damaged(path, &format!("chunk {place:?} of array {:?}: {reason}", self.name));
        let length = length(file, path)?;
        if start.checked_add(bytes).is_none_or(|end| end > length) {
            return Err(refuse(format!(
                "its {bytes} bytes from byte {start} on are not in the file, which has {length}"
            )));
        }
        if bytes > most {
            return Err(refuse(format!("it has {bytes} bytes, but no more than {most} are expected")));
        }
        let mut stored = Vec::new();
        make_room(&mut stored, bytes as usize)?;
        match file.read_exact_at(&mut stored, start) {
            Ok(()) => Ok(stored),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(refuse("the file was cut".into())),
            Err(source) => Err(Error::Io { path: path.to_path_buf(), source }),
        }
    }

    /// Opens the file at `path`. Nothing where there is none, but the array is there: an array without a disk under it
    /// would be full of fill values.
    fn open(&self, path: &Path) -> Result<Option<File>> {
        match open_regular(path) {
            Ok(file) => Ok(Some(file)),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                read_metadata(&self.folder, self.metadata.version).map(|_| None)
            }
            Err(error) => Err(error),
        }
    }

    fn path_of(&self, place: &[usize]) -> PathBuf {
        self.folder.join(self.metadata.names.path(place))
    }

    /// Has the operating system begin to read the file of chunk `number`.
    pub(super) fn announce(&self, number: usize) {
        let place = self.place_of(number);
        if self.metadata.shards.is_none()
            && let Ok(file) = open_regular(&self.path_of(&place))
        {
            // Whatever is wrong will be said when it is read.
            let _ = fadvise(&file, 0, None, Advice::WillNeed);
        }
    }

    /// Where chunk `number` is, in words.
    pub(super) fn origin(&self, number: usize) -> String {
        let place = self.place_of(number);
        format!("{}, chunk {place:?} of array {:?}", self.folder.display(), self.name)
    }

    fn damaged(&self, path: &Path, reason: &str) -> Error {
        Error::Format { path: path.to_path_buf(), offset: 0, reason: format!("{reason}; write or copy it again") }
    }
}

fn length(file: &File, path: &Path) -> Result<u64> {
    Ok(file.metadata().map_err(|source| Error::Io { path: path.to_path_buf(), source })?.len())
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
