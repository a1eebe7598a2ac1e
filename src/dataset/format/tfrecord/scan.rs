//! Finds the samples of a TFRecord file, and verifies checksums.

use crate::dataset::format::file::known_format::foreign;
use crate::dataset::format::file::masked_checksum::masked;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::index::broken::is_damage;
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::spans::Span;
use crate::{Error, Result};

/// The bytes before a sample: its length (u64) and the checksum of that (u32), little-endian.
pub(crate) const HEADER: u64 = 12;
/// The bytes after a sample: its checksum.
pub(super) const FOOTER: u64 = 4;

/// Bytes that are read at once, to get headers that are close together.
const BLOCK: usize = 64 << 10;

pub(crate) fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// Returns the sample in `whole`, which is its bytes followed by their checksum; fails if that does not match.
pub(crate) fn checked<'a>(file: &OpenFile, offset: u64, whole: &'a [u8]) -> Result<&'a [u8]> {
    let refuse = |reason| Err(Error::Format { path: file.source().path.clone(), offset, reason });
    let Some((data, checksum)) = whole.split_last_chunk::<{ FOOTER as usize }>() else {
        return refuse(format!("{} bytes have no room for a checksum; the index of the file is damaged", whole.len()));
    };
    let (expected, found) = (u32::from_le_bytes(*checksum), masked(data));
    if expected == found {
        return Ok(data);
    }
    refuse(format!(
        "the checksum of the {} bytes from here is {found:08x}, but the file declares {expected:08x}; they are damaged",
        data.len()
    ))
}

/// Returns the samples of each file, including the checksums after them. Verifies lengths, and does not read the data.
/// If damage is left out, the samples of a file end at the first broken length.
pub(super) fn find_samples(pool: &FilePool, damages: Damages) -> Result<Vec<Vec<Span>>> {
    let numbers: Vec<usize> = (0..pool.files().files().len()).collect();
    scan(&numbers, |&number| {
        let mut spans = Vec::new();
        match find_from(&*pool.file(number)?, 0, &mut spans) {
            Err(error) if damages == Damages::LeaveOut && is_damage(&error) => Ok(spans),
            found => found.map(|()| spans),
        }
    })
}

/// Fails if `file` continues after byte `end`, but no sample begins there.
pub(super) fn rest_of_file(file: &OpenFile, end: u64) -> Result<()> {
    find_from(file, end, &mut Vec::new())
}

/// Adds the samples from byte `place` of `file` on to `spans`.
fn find_from(file: &OpenFile, mut place: u64, spans: &mut Vec<Span>) -> Result<()> {
    let refuse = |offset, reason| Error::Format { path: file.source().path.clone(), offset, reason };
    let mut step = 0;
    let (mut block, mut block_start) = (Vec::new(), 0);
    while place < file.bytes() {
        let left = file.bytes() - place;
        if left < HEADER {
            let reason = format!("{left} bytes are left, but a sample begins with {HEADER}; the file is truncated");
            return Err(refuse(place, reason));
        }
        if place < block_start || place + HEADER > block_start + block.len() as u64 {
            // If headers are far apart, each is read alone.
            let room = if step > BLOCK as u64 / 4 { HEADER } else { left.min(BLOCK as u64) };
            block.resize(room as usize, 0);
            file.read_at(place, &mut block)?;
            block_start = place;
        }
        let header = &block[(place - block_start) as usize..][..HEADER as usize];
        let (length, checksum) = header.split_at(8);
        let (expected, found) = (number(checksum), masked(length));
        if expected != found {
            let named = if place == 0 { foreign(&block, "a TFRecord file") } else { None };
            let hint = named
                .map_or_else(|| "; the file is damaged, or not a TFRecord file".into(), |name| format!(": {name}"));
            let reason =
                format!("the checksum of the length is {found:08x}, but the file declares {expected:08x}{hint}");
            return Err(refuse(place, reason));
        }
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let end = length.checked_add(FOOTER).filter(|&bytes| bytes <= left - HEADER);
        let Some(bytes) = end else {
            let reason = format!(
                "a sample of {length} bytes begins here, but the file has only {} left; it is truncated",
                left - HEADER
            );
            return Err(refuse(place, reason));
        };
        let start = place + HEADER;
        spans.push(Span::new(file, start, start + bytes)?);
        step = HEADER + bytes;
        place += step;
    }
    Ok(())
}
