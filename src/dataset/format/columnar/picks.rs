//! [`Picks`]: the rows of blocks that form a batch, and how they are written column by column.

use super::block::{Block, BlockValues, LeafBlock};
use super::leaf::{Form, Leaf, LeafNulls};
use super::{Columns, Reason};
use crate::{BatchWriter, SizesWriter};

/// Minimum average length of runs of consecutive rows for copying runs instead of rows.
const WORTH_RUNS: usize = 8;

/// Strings of up to this many bytes are copied with this constant length, and the next string overwrites the excess: a
/// copy of constant length needs no call, and no branch that may be mispredicted.
const SHORT: usize = 32;

/// The rows of blocks that form a batch, in order.
pub(crate) struct Places {
    /// By row of the batch: the index of its block, and its row there.
    rows: Vec<(u32, u32)>,
    parts: Vec<Part>,
}

/// The rows of blocks that are written to a batch.
pub(crate) struct Picks<'a> {
    blocks: Vec<&'a Block>,
    places: &'a Places,
}

/// The rows of a batch that come from one block.
struct Part {
    block: usize,
    rows: Rows,
}

enum Rows {
    /// Rows of the block from `row` on go to rows of the batch from `into` on.
    Run { into: usize, row: usize, len: usize },
    /// (row of the batch, row of the block)
    Scattered(Vec<(u32, u32)>),
}

/// The part of a leaf that is written.
#[derive(Clone, Copy)]
enum Layer {
    Values,
    /// The element mask.
    Elements,
}

impl Layer {
    fn of(self, leaf: &LeafBlock) -> Option<&BlockValues> {
        match self {
            Self::Values => Some(&leaf.values),
            Self::Elements => leaf.elements.as_ref(),
        }
    }
}

/// A sample that can't be in a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its row in the batch.
    pub(crate) row: usize,
    /// The column.
    pub(crate) column: String,
    /// The reason.
    pub(crate) reason: Reason,
}

impl Rows {
    fn each(&self, mut visit: impl FnMut(usize, usize)) {
        match self {
            Self::Run { into, row, len } => (0..*len).for_each(|step| visit(into + step, row + step)),
            Self::Scattered(rows) => rows.iter().for_each(|&(into, row)| visit(into as usize, row as usize)),
        }
    }
}

impl Places {
    /// Creates the places of a batch from the block (below `blocks`) of each of its rows, and the row there.
    pub(crate) fn new(blocks: usize, rows: Vec<(u32, u32)>) -> Self {
        let follows = |a: (u32, u32), b: (u32, u32)| a.0 == b.0 && a.1.checked_add(1) == Some(b.1);
        let breaks = rows.windows(2).filter(|pair| !follows(pair[0], pair[1])).count();
        if (breaks + 1) * WORTH_RUNS <= rows.len() || breaks == 0 {
            let mut into = 0;
            let runs = rows.chunk_by(|a, b| follows(*a, *b)).map(|run| {
                let (block, row) = (run[0].0 as usize, run[0].1 as usize);
                into += run.len();
                Part { block, rows: Rows::Run { into: into - run.len(), row, len: run.len() } }
            });
            let parts = runs.collect();
            return Self { rows, parts };
        }
        let mut counts = vec![0; blocks];
        rows.iter().for_each(|&(block, _)| counts[block as usize] += 1);
        let mut scattered: Vec<Vec<(u32, u32)>> = counts.into_iter().map(Vec::with_capacity).collect();
        for (into, &(block, row)) in rows.iter().enumerate() {
            scattered[block as usize].push((into as u32, row));
        }
        let parts = scattered.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
        let parts = parts.map(|(block, rows)| Part { block, rows: Rows::Scattered(rows) }).collect();
        Self { rows, parts }
    }
}

impl<'a> Picks<'a> {
    /// Picks the rows at `places` of `blocks`.
    pub(crate) fn new(blocks: Vec<&'a Block>, places: &'a Places) -> Self {
        Self { blocks, places }
    }

    /// Reports the sizes of the samples.
    pub(crate) fn sizes(&self, columns: &Columns, into: &mut SizesWriter<'_>) {
        let mut field = 0;
        for (number, leaf) in columns.leaves().iter().enumerate() {
            if leaf.form != Form::Fixed {
                self.lengths(number, leaf, into.field(field));
                if leaf.nulls == LeafNulls::MaskElements {
                    // The element mask has one boolean per element.
                    self.lengths(number, leaf, into.field(field + leaf.fields() - 1));
                }
            }
            field += leaf.fields();
        }
    }

    fn lengths(&self, number: usize, leaf: &Leaf, lengths: &mut [usize]) {
        for part in &self.places.parts {
            let LeafBlock { values, nulls, .. } = self.blocks[part.block].leaf(number);
            let BlockValues::Variable(values) = values else { continue };
            match &part.rows {
                Rows::Run { into, row, len } => {
                    let rows = (0..*len).map(|step| (into + step, row + step));
                    values.lengths(rows, |row, length| lengths[row] = length);
                }
                Rows::Scattered(rows) => {
                    let rows = rows.iter().map(|&(into, row)| (into as usize, row as usize));
                    values.lengths(rows, |row, length| lengths[row] = length);
                }
            }
            if leaf.form == Form::OptionalStrings {
                // A string that is present has a prefix byte.
                part.rows.each(|row, source| {
                    let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(source));
                    lengths[row] = if is_null { 0 } else { lengths[row] + 1 };
                });
            }
        }
    }

    /// Writes the samples.
    ///
    /// # Errors
    /// The first sample that is null, or contains a null, although nulls are refused.
    pub(crate) fn write(&self, columns: &Columns, into: &mut BatchWriter<'_>) -> Result<(), Refusal> {
        let mut field = 0;
        for (number, leaf) in columns.leaves().iter().enumerate() {
            self.check(number, leaf).map_err(|(row, reason)| {
                let column = leaf.name();
                Refusal { row, column, reason }
            })?;
            self.write_layer((number, Layer::Values), leaf, field, into);
            if leaf.mask().is_some() {
                self.write_mask(number, into.field(field + 1));
            }
            if leaf.nulls == LeafNulls::MaskElements {
                self.write_layer((number, Layer::Elements), leaf, field + leaf.fields() - 1, into);
            }
            field += leaf.fields();
        }
        Ok(())
    }

    fn check(&self, number: usize, leaf: &Leaf) -> Result<(), (usize, Reason)> {
        let mut first: Option<(usize, bool)> = None;
        for part in &self.places.parts {
            let LeafBlock { nulls, broken, .. } = self.blocks[part.block].leaf(number);
            let nulls = nulls.as_ref();
            if nulls.is_none() && broken.is_none() {
                continue;
            }
            part.rows.each(|into, row| {
                let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
                let is_broken = !is_null && broken.as_ref().is_some_and(|broken| broken.is_null(row));
                let is_refused = is_broken || is_null && leaf.nulls == LeafNulls::Refuse;
                if is_refused && first.is_none_or(|(other, _)| into < other) {
                    first = Some((into, is_null));
                }
            });
        }
        match first {
            None => Ok(()),
            Some((row, true)) => Err((row, "it is null; pass `nulls` with a replacement".into())),
            Some((row, false)) if leaf.form == Form::Nested => {
                Err((row, "it contains a null; pass `nulls` with a replacement".into()))
            }
            Some((row, false)) => {
                Err((row, "it contains a null; pass `nulls` with a replacement, or with a mask of the elements".into()))
            }
        }
    }

    fn write_layer(&self, of: (usize, Layer), leaf: &Leaf, field: usize, into: &mut BatchWriter<'_>) {
        match leaf.form {
            Form::Fixed => self.write_fixed(of, into.field(field)),
            Form::List | Form::Strings | Form::OptionalStrings | Form::Nested => {
                self.write_variable(of, leaf.form == Form::OptionalStrings, field, into);
            }
        }
    }

    fn write_fixed(&self, (leaf, layer): (usize, Layer), into: &mut [u8]) {
        for part in &self.places.parts {
            let Some(BlockValues::Fixed { bytes, width }) = layer.of(self.blocks[part.block].leaf(leaf)) else {
                continue;
            };
            match &part.rows {
                Rows::Run { into: start, row, len } => {
                    let source = &bytes[row * width..(row + len) * width];
                    into[start * width..(start + len) * width].copy_from_slice(source);
                }
                Rows::Scattered(rows) => match width {
                    1 => gather::<1>(bytes, rows, into),
                    2 => gather::<2>(bytes, rows, into),
                    4 => gather::<4>(bytes, rows, into),
                    8 => gather::<8>(bytes, rows, into),
                    &width => {
                        for &(start, row) in rows {
                            let (start, row) = (start as usize * width, row as usize * width);
                            into[start..start + width].copy_from_slice(&bytes[row..row + width]);
                        }
                    }
                },
            }
        }
    }

    fn write_variable(
        &self,
        (leaf, layer): (usize, Layer),
        is_optional: bool,
        field: usize,
        into: &mut BatchWriter<'_>,
    ) {
        let values = self.blocks.iter().map(|block| {
            let leaf = block.leaf(leaf);
            match layer.of(leaf) {
                Some(BlockValues::Variable(values)) => Some((values, leaf.nulls.as_ref().filter(|_| is_optional))),
                _ => None,
            }
        });
        let values: Vec<_> = values.collect();
        let Some(mut rest) = into.contiguous(field) else {
            for (row, &(block, source)) in self.places.rows.iter().enumerate() {
                let Some((values, _)) = &values[block as usize] else { continue };
                into.sample(row).field(field).copy_from_slice(values.get(source as usize));
            }
            return;
        };
        let is_in_runs = self.places.parts.iter().all(|part| matches!(part.rows, Rows::Run { .. }));
        if is_in_runs && !is_optional {
            for part in &self.places.parts {
                let (Rows::Run { row, len, .. }, Some((values, _))) = (&part.rows, &values[part.block]) else {
                    continue;
                };
                let rows = *row..row + len;
                match values.run(rows.clone()) {
                    Some(bytes) => put(&mut rest, bytes),
                    None => rows.for_each(|row| put(&mut rest, values.get(row))),
                }
            }
            return;
        }
        for &(block, source) in &self.places.rows {
            let Some((values, nulls)) = &values[block as usize] else { continue };
            let source = source as usize;
            if is_optional {
                if nulls.is_some_and(|nulls| nulls.is_null(source)) {
                    continue;
                }
                put(&mut rest, &[1]);
            }
            let (bytes, len) = values.starting_at(source);
            put_first(&mut rest, bytes, len);
        }
    }

    fn write_mask(&self, leaf: usize, into: &mut [u8]) {
        into.fill(1);
        for part in &self.places.parts {
            if let Some(nulls) = &self.blocks[part.block].leaf(leaf).nulls {
                part.rows.each(|row, source| into[row] = u8::from(nulls.is_valid(source)));
            }
        }
    }
}

/// Copies `bytes` to the start of `rest`, and advances `rest` past them.
#[inline]
fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    let (target, after) = std::mem::take(rest).split_at_mut(bytes.len());
    target.copy_from_slice(bytes);
    *rest = after;
}

/// Like `put` with the first `len` of `bytes`, but may overwrite bytes of `rest` beyond them.
#[inline]
fn put_first(rest: &mut &mut [u8], bytes: &[u8], len: usize) {
    match (bytes.first_chunk::<SHORT>(), rest.first_chunk_mut::<SHORT>()) {
        (Some(source), Some(into)) if len <= SHORT => {
            *into = *source;
            *rest = &mut std::mem::take(rest)[len..];
        }
        _ => put(rest, &bytes[..len]),
    }
}

fn gather<const WIDTH: usize>(bytes: &[u8], rows: &[(u32, u32)], into: &mut [u8]) {
    let (source, into) = (bytes.as_chunks::<WIDTH>().0, into.as_chunks_mut::<WIDTH>().0);
    for &(row, of) in rows {
        into[row as usize] = source[of as usize];
    }
}
