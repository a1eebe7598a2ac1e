//! Finds the lines of a text.

use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::text_file::{blocks, parts, text_start};
use crate::dataset::format::index::broken::is_damage;
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::spans::Span;
use crate::{Result, watch};

/// The bytes of a file that a thread scans at a time.
const PART: u64 = 16 << 20;

/// Returns the lines of each file, without line ends and blank lines. A file in UTF-16 has none if damage is left out.
pub(super) fn find_lines(pool: &FilePool, damages: Damages) -> Result<Vec<Vec<Span>>> {
    let parts = parts(pool, PART);
    let found = scan(&parts, |&(number, start, end)| {
        let file = pool.file(number)?;
        match text_start(&file) {
            Err(error) if damages == Damages::LeaveOut && is_damage(&error) => Ok(Vec::new()),
            text => lines_of_part(&file, text?, start, end),
        }
    })?;
    let mut files = vec![Vec::new(); pool.files().files().len()];
    for ((number, ..), lines) in parts.into_iter().zip(found) {
        watch::advance(0)?;
        files[number].extend(lines);
    }
    Ok(files)
}

/// Returns the lines that begin between `start` and `end`, wherever they end, in a text that begins at byte `text`.
fn lines_of_part(file: &OpenFile, text: u64, start: u64, end: u64) -> Result<Vec<Span>> {
    let mut lines = Vec::new();
    // The byte before the part shows whether a line begins at its start.
    let from = start.max(text + 1) - 1;
    let mut line = if start <= text { Some(Line::at(text)) } else { None };
    blocks(file, if start <= text { text } else { from }, file.bytes(), |offset, block| {
        let mut place = 0;
        loop {
            let newline = memchr::memchr(b'\n', &block[place..]).map(|found| place + found);
            if let Some(line) = &mut line {
                line.see(&block[place..newline.unwrap_or(block.len())], offset + place as u64);
            }
            let Some(newline) = newline else { break };
            if let Some(line) = line.take() {
                lines.extend(line.span(file)?);
            }
            place = newline + 1;
            let next = offset + place as u64;
            if next >= end {
                return Ok(false);
            }
            line = Some(Line::at(next));
        }
        Ok(line.is_some() || offset + (block.len() as u64) < end)
    })?;
    if let Some(line) = line {
        lines.extend(line.span(file)?);
    }
    Ok(lines)
}

/// A line whose end has not been found yet.
struct Line {
    start: u64,
    /// The end of its last byte that is not white space.
    end: u64,
}

impl Line {
    fn at(start: u64) -> Self {
        Self { start, end: start }
    }

    fn see(&mut self, part: &[u8], offset: u64) {
        // From the end, because lines rarely end in much white space.
        if let Some(last) = part.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) {
            self.end = offset + last as u64 + 1;
        }
    }

    fn span(self, file: &OpenFile) -> Result<Option<Span>> {
        if self.end == self.start { Ok(None) } else { Span::new(file, self.start, self.end).map(Some) }
    }
}
