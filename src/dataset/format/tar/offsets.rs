//! The `.tar.idx` that Megatron-Energon puts next to an archive: the offset of each of its samples.
//!
//! Source: its documentation, and files that it writes: little-endian 8-byte numbers, each the offset of the first
//! header of a sample; the last one is the end of the last sample. It is used only to read the headers of one large
//! archive from several offsets in parallel.

use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::header::BLOCK;
use super::members::{TarEnd, TarMember, TarMembers};
use crate::Error;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::scan::scan;

/// The number of samples per task. Lower for fuzzers, which should try indices, not read archives that are large enough
/// for one.
const SAMPLES: usize = if cfg!(fuzzing) { 16 } else { 1024 };

/// Returns the members of `file`, in order, if there is a correct index next to it: according to the headers of the
/// archive, each piece of the index must begin where the one before ends.
pub(super) fn members_by_offsets(file: &OpenFile, end: TarEnd) -> Option<Vec<TarMember>> {
    let starts = starts(&file.source().path, file.bytes())?;
    let pieces: Vec<Range<u64>> = std::iter::once(0)
        .chain(starts.iter().copied())
        .zip(starts.iter().copied().chain([u64::MAX]))
        .map(|(start, stop)| start..stop)
        .collect();
    let read = scan(&pieces, |piece| {
        let mut members = TarMembers::within(file, end, piece.clone());
        let mut found = Vec::new();
        while let Some(member) = members.next().map_err(|damage| damage.error)? {
            found.push(member);
        }
        if members.is_at_end() { Ok(found) } else { Err(disagrees(&file.source().path, piece.end)) }
    });
    // On any error, the archive is read from start to end, which reports those that are real.
    read.ok().map(|pieces| pieces.into_iter().flatten().collect())
}

/// Returns some offsets between samples, ascending, without that of the first sample; `None` if there is no plausible
/// index, or using it does not pay off.
fn starts(archive: &Path, archive_bytes: u64) -> Option<Vec<u64>> {
    let mut path = OsString::from(archive);
    path.push(".idx");
    // Eight bytes per sample, and a sample takes at least one block.
    let bytes = fs::metadata(&path).ok().filter(|found| found.is_file())?.len();
    if bytes % 8 != 0 || bytes / 8 > archive_bytes / BLOCK as u64 + 1 || bytes / 8 < 2 * SAMPLES as u64 {
        return None;
    }
    let read = fs::read(path).ok()?;
    let places = read.as_chunks::<8>().0.iter().map(|place| u64::from_le_bytes(*place));
    let samples = places.len() - 1;
    let starts: Vec<u64> = places.take(samples).step_by(SAMPLES).skip(1).collect();
    let is_sound = starts.is_sorted_by(|a, b| a < b)
        && starts.iter().all(|&start| start > 0 && start < archive_bytes && start.is_multiple_of(BLOCK as u64));
    (is_sound && !starts.is_empty()).then_some(starts)
}

fn disagrees(path: &Path, offset: u64) -> Error {
    Error::Format {
        path: path.to_path_buf(),
        offset,
        reason: "no sample begins here, although the index of the archive declares one".into(),
    }
}
