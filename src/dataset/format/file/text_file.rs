//! Text files, read in blocks; line numbers for errors.

use super::known_format::{SIGNATURE_BYTES, foreign_to_text};
use super::open_file::OpenFile;
use super::pool::FilePool;
use crate::{Error, Result};

/// Files are read in blocks of this many bytes.
const BLOCK: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the offset where the text begins: after a byte order mark, if there is one.
///
/// # Errors
/// [`Error::Format`] for UTF-16, recognized by its mark, and for files that are not text; errors of reading.
pub(crate) fn text_start(file: &OpenFile) -> Result<u64> {
    let mut start = [0; SIGNATURE_BYTES];
    let start = &mut start[..file.bytes().min(SIGNATURE_BYTES as u64) as usize];
    file.read_at(0, start)?;
    if let Some(reason) = foreign_to_text(start) {
        return Err(Error::Format { path: file.source().path.clone(), offset: 0, reason });
    }
    let mark = &start[..start.len().min(3)];
    if mark.starts_with(b"\xff\xfe") || mark.starts_with(b"\xfe\xff") {
        let reason = "the text is in UTF-16; convert it to UTF-8".into();
        return Err(Error::Format { path: file.source().path.clone(), offset: 0, reason });
    }
    Ok(if mark == BYTE_ORDER_MARK { mark.len() as u64 } else { 0 })
}

/// Calls `visit` with each block of `file` from `start` to `end`, and its offset, until it returns false.
pub(crate) fn blocks(
    file: &OpenFile,
    start: u64,
    end: u64,
    mut visit: impl FnMut(u64, &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut buffer = vec![0; BLOCK.min(usize::try_from(end.saturating_sub(start)).unwrap_or(BLOCK))];
    let mut offset = start;
    while offset < end {
        let bytes = (end - offset).min(BLOCK as u64) as usize;
        file.read_at(offset, &mut buffer[..bytes])?;
        if !visit(offset, &buffer[..bytes])? {
            break;
        }
        offset += bytes as u64;
    }
    Ok(())
}

/// Returns the number, from 1 on, of the line that contains byte `offset`. Reads all lines before it: for errors only.
pub(super) fn line_of(file: &OpenFile, offset: u64) -> Result<u64> {
    let mut line = 1;
    blocks(file, 0, offset.min(file.bytes()), |_, block| {
        line += memchr::memchr_iter(b'\n', block).count() as u64;
        Ok(true)
    })?;
    Ok(line)
}

/// Prefixes the reason of `error` with the line number if it is about a position in one of the files of `pool`.
pub(crate) fn with_line(pool: &FilePool, error: Error) -> Error {
    let Error::Format { path, offset, reason } = error else { return error };
    match pool.files().files().iter().position(|file| file.path == path) {
        Some(number) => match pool.file(number) {
            Ok(file) => refuse_line(&file, offset, &reason),
            Err(error) => error,
        },
        None => Error::Format { path, offset, reason },
    }
}

/// Returns an error about byte `offset` of `file`, with the line number before the reason.
pub(crate) fn refuse_line(file: &OpenFile, offset: u64, reason: &str) -> Error {
    match line_of(file, offset) {
        Ok(line) => {
            let reason = format!("line {line}: {reason}");
            Error::Format { path: file.source().path.clone(), offset, reason }
        }
        Err(error) => error,
    }
}

/// Splits all files of `pool` into parts of at most `bytes` bytes: file, start and end, in order.
pub(crate) fn parts(pool: &FilePool, bytes: u64) -> Vec<(usize, u64, u64)> {
    let files = pool.files().files().iter().enumerate();
    files
        .flat_map(|(number, file)| {
            let end = file.facts.bytes;
            (0..end.div_ceil(bytes)).map(move |part| (number, part * bytes, ((part + 1) * bytes).min(end)))
        })
        .collect()
}
