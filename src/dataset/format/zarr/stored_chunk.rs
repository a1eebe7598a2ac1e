//! [`StoredChunk`]: the encoded bytes of a chunk, and how they are read from a file.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::metadata::ArrayMetadata;
use crate::dataset::format::file::room::make_room;
use crate::{Error, Result};

/// The constant part of the bound on how much compression may enlarge a chunk.
const OVERHEAD: u64 = 1 << 20;

/// The encoded bytes of a chunk.
pub(super) struct StoredChunk {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// Bit n is set if codec n was not applied to this chunk.
    pub(super) skipped: u32,
}

/// Returns the maximum size of a stored chunk of `array`.
pub(super) fn most_bytes(array: &ArrayMetadata) -> u64 {
    let most = array.chunk_bytes() as u64;
    most + most / 8 + OVERHEAD
}

/// Reads `range` (offset and length) of the file at `path`, at most `most` bytes. `name` describes it in errors.
///
/// # Errors
/// [`Error::Format`] when the file lacks these bytes; [`Error::Io`].
pub(super) fn read_range(file: &File, path: &Path, name: &str, range: (u64, u64), most: u64) -> Result<Vec<u8>> {
    let (start, bytes) = range;
    let length = length(file, path)?;
    if start.checked_add(bytes).is_none_or(|end| end > length) {
        let reason = format!("its {bytes} bytes from byte {start} on are outside the file, which has {length}");
        return Err(damaged(path, name, &reason));
    }
    if bytes > most {
        return Err(damaged(path, name, &format!("it has {bytes} bytes, but at most {most} are expected")));
    }
    let mut stored = Vec::new();
    make_room(&mut stored, bytes as usize)?;
    match file.read_exact_at(&mut stored, start) {
        Ok(()) => Ok(stored),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(damaged(path, name, "the file was truncated")),
        Err(source) => Err(Error::Io { path: path.to_path_buf(), source }),
    }
}

pub(super) fn length(file: &File, path: &Path) -> Result<u64> {
    Ok(file.metadata().map_err(|source| Error::Io { path: path.to_path_buf(), source })?.len())
}

/// The error of a damaged part of a file, described by `name`.
pub(super) fn damaged(path: &Path, name: &str, reason: &str) -> Error {
    Error::Format { path: path.to_path_buf(), offset: 0, reason: format!("{name}: {reason}; write or copy it again") }
}

/// Describes a chunk in errors.
pub(super) fn chunk_name(array: &str, place: &[usize]) -> String {
    format!("chunk {place:?} of array {array:?}")
}
