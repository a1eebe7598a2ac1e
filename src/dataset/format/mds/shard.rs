//! A shard of MDS: the positions of its samples, and the bytes of a compressed shard.
//!
//! ```text
//! number of samples (u32), place of each sample and of the end (u32 each), description of the columns (JSON), samples
//! ```

use std::cell::Cell;
use std::io::{self, BufReader, Read};

use super::index::Shard;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::packing::zstd_frames::ZstdFrames;
use crate::{Error, Result};

/// The largest shard that is unpacked: a larger size could be forged to exhaust the memory.
const LARGEST_SHARD: u64 = 1 << 30;

/// An uncompressed shard in memory.
pub(crate) struct Unpacked(Vec<u8>);

impl Unpacked {
    /// Fills `into` with the bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(self.bytes(offset, into.len()));
        Ok(())
    }

    /// Returns `bytes` bytes from `offset` on, which [`place`] has found to be in the shard.
    pub(crate) fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        &self.0[offset as usize..][..bytes]
    }
}

/// Fails unless the header of `shard`, which is read with `read`, has the expected number of samples.
pub(crate) fn check(
    shard: &Shard,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
    refuse: impl Fn(u64, String) -> Error,
) -> Result<()> {
    if header_bytes(shard) > shard.bytes {
        let reason = format!("{} samples do not fit into a shard of {} bytes", shard.samples, shard.bytes);
        return Err(refuse(0, reason));
    }
    let mut word = [0; 4];
    read(0, &mut word)?;
    let found = u32::from_le_bytes(word);
    if u64::from(found) != shard.samples as u64 {
        return Err(refuse(0, format!("the shard has {found} samples, but the index declares {}", shard.samples)));
    }
    Ok(())
}

fn header_bytes(shard: &Shard) -> u64 {
    (shard.samples as u64).saturating_mul(4).saturating_add(8)
}

/// Returns offset and size of sample `within` of `shard`, checked against its size; `read` reads its bytes.
pub(crate) fn place(
    shard: &Shard,
    within: usize,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
    refuse: impl Fn(u64, String) -> Error,
) -> Result<(u64, usize)> {
    let (at, mut pair) = (4 + 4 * within as u64, [0; 8]);
    read(at, &mut pair)?;
    let [start, end] =
        [&pair[..4], &pair[4..]].map(|word| u64::from(u32::from_le_bytes(word.try_into().expect("four bytes"))));
    if start < header_bytes(shard) || start > end || end > shard.bytes {
        let reason =
            format!("a sample from byte {start} to byte {end} is outside the shard, which has {} bytes", shard.bytes);
        return Err(refuse(at, reason));
    }
    Ok((start, (end - start) as usize))
}

/// Returns the bytes of a compressed shard, and their number.
pub(crate) fn unpack(file: &OpenFile, shard: &Shard) -> Result<(Unpacked, usize)> {
    let refuse = |reason| Error::Format { path: file.source().path.clone(), offset: 0, reason };
    if shard.bytes > LARGEST_SHARD {
        let reason = format!(
            "the shard declares a decompressed size of {} bytes, but at most {LARGEST_SHARD} are supported",
            shard.bytes
        );
        return Err(refuse(reason));
    }
    let damaged = |reason: String| refuse(format!("it can't be decompressed: {reason}"));
    let packed = BufReader::with_capacity(1 << 18, Packed { file, offset: 0, failed: Cell::new(None) });
    let (mut frames, mut bytes) = (ZstdFrames::new(packed), Vec::new());
    // The buffer grows with the actual output, whatever the headers claim.
    let unpacked = frames.by_ref().take(shard.bytes + 1).read_to_end(&mut bytes);
    unpacked.map_err(|error| match frames.get_ref().get_ref().failed.take() {
        Some(error) => error,
        None if error.kind() == io::ErrorKind::Unsupported => refuse(error.to_string()),
        None => damaged(error.to_string()),
    })?;
    if bytes.len() as u64 > shard.bytes {
        return Err(refuse(format!("it decompresses to more than the {} bytes that the index declares", shard.bytes)));
    }
    if bytes.len() as u64 != shard.bytes {
        return Err(refuse(format!(
            "it decompresses to {} bytes, but the index declares {}",
            bytes.len(),
            shard.bytes
        )));
    }
    let size = bytes.len();
    Ok((Unpacked(bytes), size))
}

/// A compressed file, read sequentially.
struct Packed<'a> {
    file: &'a OpenFile,
    offset: u64,
    /// The read error, which the decoder would wrap in its own.
    failed: Cell<Option<Error>>,
}

impl Read for Packed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = (self.file.bytes() - self.offset).min(into.len() as u64) as usize;
        if let Err(error) = self.file.read_at(self.offset, &mut into[..bytes]) {
            let text = error.to_string();
            self.failed.set(Some(error));
            return Err(io::Error::other(text));
        }
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
