//! The positions of the rows of a CSV file: they end with `\n`, `\r`, or both, but not inside quotes.

use super::quotes::Place;
use crate::Result;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::text_file::{blocks, refuse_line, text_start};
use crate::dataset::format::index::broken::is_damage;
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::spans::Span;

/// The longest header row, in bytes.
const LONGEST_HEADER: u32 = 16 << 20;

/// Returns the rows of each file, including the header, without line ends and empty lines. If damage is left out, the
/// rows of a file end at the first damage.
pub(super) fn find_rows(pool: &FilePool, delimiter: u8, damages: Damages) -> Result<Vec<Vec<Span>>> {
    let numbers: Vec<usize> = (0..pool.files().files().len()).collect();
    scan(&numbers, |&number| {
        let mut rows = Vec::new();
        let visited = visit_rows(&*pool.file(number)?, delimiter, |row| {
            rows.push(row);
            true
        });
        match visited {
            Err(error) if damages == Damages::LeaveOut && is_damage(&error) => Ok(rows),
            visited => visited.map(|()| rows),
        }
    })
}

/// Fails if the rows of `file` can't be found.
pub(super) fn check_rows(file: &OpenFile, delimiter: u8) -> Result<()> {
    visit_rows(file, delimiter, |_| true)
}

/// Returns the first row of `file`, if it has one, and its offset.
pub(super) fn first_row(file: &OpenFile, delimiter: u8) -> Result<Option<(u64, Vec<u8>)>> {
    let mut first = None;
    visit_rows(file, delimiter, |row| {
        first = Some(row);
        false
    })?;
    let Some(Span { offset, bytes }) = first else { return Ok(None) };
    if bytes > LONGEST_HEADER {
        return Err(refuse_line(
            file,
            offset,
            &format!("the header has {bytes} bytes, but at most {LONGEST_HEADER} are allowed"),
        ));
    }
    let mut row = vec![0; bytes as usize];
    file.read_at(offset, &mut row)?;
    Ok(Some((offset, row)))
}

/// Calls `visit` with each row until it returns false.
fn visit_rows(file: &OpenFile, delimiter: u8, mut visit: impl FnMut(Span) -> bool) -> Result<()> {
    let start = text_start(file)?;
    let mut is_wanted = true;
    let (mut row, mut place, mut before, mut quote) = (start, Place::Plain, b'\n', start);
    blocks(file, start, file.bytes(), |offset, block| {
        let mut at = 0;
        while at < block.len() {
            if place != Place::Plain {
                at = place.skip_quoted(block, at);
                continue;
            }
            let Some(found) = memchr::memchr3(b'"', b'\n', b'\r', &block[at..]) else { break };
            let found = at + found;
            let previous = if found == 0 { before } else { block[found - 1] };
            let end = offset + found as u64;
            if block[found] != b'"' {
                // Skips empty rows, such as the one between a carriage return and its line feed.
                if end > row && !visit(Span::new(file, row, end)?) {
                    is_wanted = false;
                    return Ok(false);
                }
                row = end + 1;
            } else if previous == delimiter || end == row {
                (place, quote) = (Place::Quoted, end);
            }
            at = found + 1;
        }
        before = block[block.len() - 1];
        Ok(true)
    })?;
    if !is_wanted {
        return Ok(());
    }
    if place == Place::Quoted {
        return Err(refuse_line(file, quote, "a quote is opened here and never closed"));
    }
    if row < file.bytes() {
        visit(Span::new(file, row, file.bytes())?);
    }
    Ok(())
}
