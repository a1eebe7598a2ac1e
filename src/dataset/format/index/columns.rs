//! [`IndexColumn`]: the columns that a scan finds in each file, and the columns of all files that they are joined to.

use std::collections::HashMap;
use std::ops::Range;

use super::sample_index::SampleIndex;
use crate::{Result, watch};

/// Numbers that are copied at a time.
const BLOCK: usize = 1 << 16;

/// A column of numbers found by a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexColumn {
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// What the numbers of a column mean, which decides how the columns of several files are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnRole {
    /// Plain numbers, copied unchanged.
    Plain,
    /// End offsets of the parts of column `of`: relative to the file before joining, and to all files afterward.
    Ends { of: usize },
    /// Dictionary codes for the strings in the columns `texts` (end offsets) and `texts` + 1 (bytes); the dictionary is
    /// shared by all files.
    Codes { texts: usize },
    /// Part of such a dictionary.
    OfTexts,
}

/// The source of the columns of consecutive files.
pub(crate) enum Piece<'a> {
    /// One file, just scanned.
    Scanned(Vec<IndexColumn>),
    /// Some files of an existing index.
    Kept { index: &'a SampleIndex, files: Range<usize> },
}

impl IndexColumn {
    /// Returns the bytes per number, and the count of numbers.
    pub(crate) fn form(&self) -> (usize, usize) {
        match self {
            Self::U8(numbers) => (1, numbers.len()),
            Self::U32(numbers) => (4, numbers.len()),
            Self::U64(numbers) => (8, numbers.len()),
        }
    }

    fn empty(bytes_per_number: usize) -> Self {
        match bytes_per_number {
            1 => Self::U8(Vec::new()),
            4 => Self::U32(Vec::new()),
            _ => Self::U64(Vec::new()),
        }
    }

    fn get(&self, row: usize) -> u64 {
        match self {
            Self::U8(numbers) => u64::from(numbers[row]),
            Self::U32(numbers) => u64::from(numbers[row]),
            Self::U64(numbers) => numbers[row],
        }
    }

    /// Appends all numbers of another column if that has the same width; returns false otherwise.
    fn extend(&mut self, other: &Self) -> Result<bool> {
        match (self, other) {
            (Self::U8(numbers), Self::U8(others)) => extend(numbers, others)?,
            (Self::U32(numbers), Self::U32(others)) => extend(numbers, others)?,
            (Self::U64(numbers), Self::U64(others)) => extend(numbers, others)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends a number. It fits: the column that it comes from has the same width.
    fn push(&mut self, number: u64) {
        match self {
            Self::U8(numbers) => numbers.push(number as u8),
            Self::U32(numbers) => numbers.push(number as u32),
            Self::U64(numbers) => numbers.push(number),
        }
    }

    /// Calls `visit` for the bytes as they are written to a file, one block at a time.
    pub(super) fn visit_bytes(&self, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = Vec::new();
        match self {
            Self::U8(numbers) => numbers.chunks(BLOCK).try_for_each(visit),
            Self::U32(numbers) => numbers.chunks(BLOCK).try_for_each(|block| {
                bytes.clear();
                bytes.extend(block.iter().flat_map(|number| number.to_le_bytes()));
                visit(&bytes)
            }),
            Self::U64(numbers) => numbers.chunks(BLOCK).try_for_each(|block| {
                bytes.clear();
                bytes.extend(block.iter().flat_map(|number| number.to_le_bytes()));
                visit(&bytes)
            }),
        }
    }
}

/// Appends `others` to `numbers`.
fn extend<T: Copy>(numbers: &mut Vec<T>, others: &[T]) -> Result<()> {
    numbers.reserve(others.len());
    others.chunks(BLOCK).try_for_each(|block| {
        watch::advance(0)?;
        numbers.extend_from_slice(block);
        Ok(())
    })
}

impl Piece<'_> {
    fn columns(&self) -> usize {
        match self {
            Self::Scanned(columns) => columns.len(),
            Self::Kept { index, .. } => index.columns(),
        }
    }

    fn bytes_per_number(&self, column: usize) -> usize {
        match self {
            Self::Scanned(columns) => columns[column].form().0,
            Self::Kept { index, .. } => index.bytes_per_number(column),
        }
    }

    /// Returns the range of its rows in a column.
    fn rows(&self, column: usize) -> Result<Range<usize>> {
        match self {
            Self::Scanned(columns) => Ok(0..columns[column].form().1),
            Self::Kept { index, files } => {
                let end = |files: usize| if files == 0 { Ok(0) } else { index.file_end(column, files - 1) };
                Ok(end(files.start)?..end(files.end)?)
            }
        }
    }

    /// Calls `visit` for each number of a column.
    fn visit(&self, column: usize, rows: Range<usize>, mut visit: impl FnMut(u64)) -> Result<()> {
        match self {
            Self::Scanned(columns) => {
                for start in rows.clone().step_by(BLOCK) {
                    watch::advance(0)?;
                    (start..rows.end.min(start + BLOCK)).for_each(|row| visit(columns[column].get(row)));
                }
            }
            Self::Kept { index, .. } => {
                let mut block = vec![0; BLOCK.min(rows.len())];
                for start in rows.clone().step_by(BLOCK) {
                    watch::advance(0)?;
                    let block = &mut block[..BLOCK.min(rows.end - start)];
                    index.get_range(column, start, block)?;
                    block.iter().for_each(|&number| visit(number));
                }
            }
        }
        Ok(())
    }

    /// Appends the numbers of a column unchanged.
    fn append(&self, column: usize, rows: Range<usize>, into: &mut IndexColumn) -> Result<()> {
        match self {
            Self::Scanned(columns) if into.extend(&columns[column])? => return Ok(()),
            Self::Kept { index, .. } => {
                if let IndexColumn::U8(bytes) = into {
                    bytes.extend(index.get_bytes(column, rows)?);
                    return Ok(());
                }
            }
            Self::Scanned(_) => {}
        }
        self.visit(column, rows, |number| into.push(number))
    }

    /// Returns string `row` of a dictionary.
    fn text(&self, texts: usize, row: usize) -> Result<Vec<u8>> {
        let number = |column: usize, row: usize| match self {
            Self::Scanned(columns) => Ok(columns[column].get(row)),
            Self::Kept { index, .. } => index.get(column, row),
        };
        let start = if row == 0 { 0 } else { number(texts, row - 1)? };
        (start..number(texts, row)?).map(|place| Ok(number(texts + 1, place as usize)? as u8)).collect()
    }

    /// Returns, per file, where its rows in a column end, relative to this piece.
    fn file_ends(&self, column: usize) -> Result<Vec<usize>> {
        let rows = self.rows(column)?;
        match self {
            Self::Scanned(_) => Ok(vec![rows.end]),
            Self::Kept { index, files } => {
                files.clone().map(|file| Ok(index.file_end(column, file)?.saturating_sub(rows.start))).collect()
            }
        }
    }
}

/// Joins the columns of all files of `pieces`: first, per column, where the rows of each file end, then the columns
/// themselves, converted according to their `roles`.
pub(crate) fn join(roles: &[ColumnRole], pieces: &[Piece<'_>]) -> Result<Vec<IndexColumn>> {
    debug_assert!(pieces.iter().all(|piece| piece.columns() == roles.len()), "a column has a role");
    let width = |column| pieces.first().map_or(8, |piece| piece.bytes_per_number(column));
    let mut file_ends: Vec<Vec<u64>> = vec![Vec::new(); roles.len()];
    let mut joined: Vec<IndexColumn> = (0..roles.len()).map(|column| IndexColumn::empty(width(column))).collect();
    let mut texts: HashMap<usize, Texts> = HashMap::new();
    for piece in pieces {
        // Column lengths before this piece, by which its end offsets are shifted.
        let before: Vec<u64> = joined.iter().map(|column| column.form().1 as u64).collect();
        for (column, &role) in roles.iter().enumerate() {
            if role != ColumnRole::OfTexts {
                let rows = piece.rows(column)?;
                let into = &mut joined[column];
                match role {
                    ColumnRole::Ends { of } => {
                        let shift = before[of].wrapping_sub(piece.rows(of)?.start as u64);
                        piece.visit(column, rows, |end| into.push(end.wrapping_add(shift)))?;
                    }
                    ColumnRole::Codes { texts: of } => {
                        let known = texts.entry(of).or_default();
                        let mut codes: HashMap<u64, u64> = HashMap::new();
                        let mut failed = Ok(());
                        piece.visit(column, rows, |code| {
                            let new = match codes.get(&code) {
                                Some(&new) => new,
                                None => {
                                    let text = piece.text(of, code as usize).unwrap_or_else(|error| {
                                        failed = Err(error);
                                        Vec::new()
                                    });
                                    let new = known.number(text);
                                    codes.insert(code, new);
                                    new
                                }
                            };
                            into.push(new);
                        })?;
                        failed?;
                    }
                    _ => piece.append(column, rows, into)?,
                }
            }
            let ends = if role == ColumnRole::OfTexts {
                // A shared dictionary belongs to no single file.
                vec![0; piece.file_ends(0)?.len()]
            } else {
                piece.file_ends(column)?
            };
            file_ends[column].extend(ends.into_iter().map(|end| before[column] + end as u64));
        }
    }
    for (column, known) in texts {
        for text in &known.texts {
            text.iter().for_each(|&byte| joined[column + 1].push(u64::from(byte)));
            let end = joined[column + 1].form().1 as u64;
            joined[column].push(end);
        }
    }
    Ok(file_ends.into_iter().map(IndexColumn::U64).chain(joined).collect())
}

/// Distinct strings, in order of first appearance.
#[derive(Default)]
struct Texts {
    texts: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u64>,
}

impl Texts {
    fn number(&mut self, text: Vec<u8>) -> u64 {
        if let Some(&number) = self.numbers.get(&text) {
            return number;
        }
        let number = self.texts.len() as u64;
        self.numbers.insert(text.clone(), number);
        self.texts.push(text);
        number
    }
}
