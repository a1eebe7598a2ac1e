//! [`PackedBatchSampler`]: documents packed into rows of one length.

use std::sync::Arc;

use super::compact::{CompactNumbers, reader_of};
use super::packed_rows::PackedRows;
use super::packing::Packing;
use super::{BatchingSampler, EpochBatches, LastBatch, Shuffling};
use crate::error::{Error, Result};
use crate::rng::{BulkPermutation, Permutation, Purpose, digest};
use crate::watch;

/// Number of documents to look up at once.
const BLOCK: usize = 1 << 13;

/// The meaning of an index of a [`PackedBatchSampler`]: a document, the token where the piece begins, and whether it
/// begins a row. A piece continues to the end of its document or of its row.
///
/// A number below the number of documents is a whole document that is not the first in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PieceCode {
    /// The number of the document.
    pub document: usize,
    /// The first token of the piece, counted from the start of the document.
    pub start: usize,
    /// True if the piece is the first in its row.
    pub begins_row: bool,
}

impl PieceCode {
    /// Returns the index that encodes this piece, given `documents` documents.
    #[must_use]
    pub fn index(self, documents: usize) -> usize {
        self.document + documents * (2 * self.start + usize::from(self.begins_row))
    }

    /// Decodes `index`, given `documents` documents.
    ///
    /// # Panics
    /// If there are no documents.
    #[must_use]
    pub fn of(index: usize, documents: usize) -> Self {
        let (document, rest) = (index % documents, index / documents);
        Self { document, start: rest / 2, begins_row: rest % 2 == 1 }
    }
}

/// Batches of rows of `length` tokens, into which documents are packed. Each token of each document occurs once per
/// epoch, except in a last batch that is dropped. An index encodes a piece of a document: see [`PieceCode`].
///
/// With [`Shuffling::Seeded`] documents are packed in a random order, and full rows are yielded in another random
/// order, so all batches have nearly the same number of tokens, on every rank. First fit and best fit pack windows of
/// `window` documents, each window separately.
///
/// An epoch is prepared when it begins: first fit and best fit take 4 bytes per piece (8 if a number does not fit) and
/// the time to sort, concatenation 8 bytes per batch.
///
/// # Example
/// ```
/// use sluicegate::internal::{PackedBatchSampler, Packing, PieceCode};
/// use sluicegate::{BatchingSampler, LastBatch, Shuffling};
///
/// let lengths = [5, 2, 9, 3];
/// let sampler = PackedBatchSampler::new(&lengths, 8, 1, Packing::BestFit, 100, LastBatch::Keep, Shuffling::Off)?;
/// let batches = sampler.batches(0)?;
/// let mut indices = Vec::new();
/// batches.indices(1, &mut indices);
/// let documents: Vec<usize> = indices.iter().map(|&index| PieceCode::of(index, 4).document).collect();
/// assert_eq!(documents, [0, 3]); // The first row holds 8 tokens of document 2, this one 5 + 3, the last one 2 + 1.
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PackedBatchSampler {
    lengths: Arc<CompactNumbers>,
    length: usize,
    rows_per_batch: usize,
    packing: Packing,
    window: usize,
    last_batch: LastBatch,
    shuffling: Shuffling,
}

impl PackedBatchSampler {
    /// Returns a sampler for documents with these `lengths`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a number is 0, a length is negative (the message names the document), there is no
    /// memory for the lengths, or there are more tokens than indices can represent.
    pub fn new(
        lengths: &[i64],
        length: usize,
        rows_per_batch: usize,
        packing: Packing,
        window: usize,
        last_batch: LastBatch,
        shuffling: Shuffling,
    ) -> Result<Self> {
        let read = reader_of(lengths);
        Self::read(lengths.len(), read, length, rows_per_batch, packing, window, last_batch, shuffling)
    }

    /// Returns a sampler for `len` documents. `read` fills its buffer with the lengths from the given start on.
    ///
    /// # Errors
    /// Those of `read`, and those of [`new`](Self::new).
    #[expect(clippy::too_many_arguments, reason = "those of `new`, with the lengths in two parts")]
    pub fn read(
        len: usize,
        read: impl FnMut(usize, &mut [i64]) -> Result<()>,
        length: usize,
        rows_per_batch: usize,
        packing: Packing,
        window: usize,
        last_batch: LastBatch,
        shuffling: Shuffling,
    ) -> Result<Self> {
        let lengths = CompactNumbers::read_lengths(len, read, "document", |_, _| Ok(()))?;
        let invalid = |argument, reason: String| Err(Error::invalid(argument, reason));
        for (argument, number) in [("length", length), ("rows_per_batch", rows_per_batch), ("window", window)] {
            if number == 0 {
                return invalid(argument, "expected a positive integer, but got 0".to_owned());
            }
        }
        if length.checked_mul(rows_per_batch).is_none_or(|tokens| i64::try_from(tokens).is_err()) {
            return invalid("rows_per_batch", format!("{rows_per_batch} rows of {length} tokens can't be counted"));
        }
        let longest = lengths.iter().max().unwrap_or(0);
        // The largest index: the last piece of the longest document, at the last position.
        let largest = (longest as u128 * 2 + 2) * lengths.len() as u128;
        if largest > i64::MAX as u128 {
            let reason = format!(
                "{} documents, of which the longest has {longest} tokens, are too many for 64-bit indices of their \
                 pieces",
                lengths.len()
            );
            return invalid("lengths", reason);
        }
        let lengths = Arc::new(lengths);
        Ok(Self { lengths, length, rows_per_batch, packing, window, last_batch, shuffling })
    }

    fn permutation(&self, purpose: Purpose, len: usize, epoch: u64) -> Option<Permutation> {
        match self.shuffling {
            Shuffling::Off => None,
            Shuffling::Seeded(seed) => Some(Permutation::for_purpose(purpose, len as u64, (seed, epoch), &[])),
        }
    }
}

impl BatchingSampler for PackedBatchSampler {
    fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>> {
        let documents = self.permutation(Purpose::PackedDocuments, self.lengths.len(), epoch);
        if self.packing == Packing::Concat {
            return ConcatBatches::new(self, documents).map(|batches| Box::new(batches) as Box<dyn EpochBatches>);
        }
        let order = documents.map(BulkPermutation::new);
        let in_order = |start: usize, into: &mut [usize]| positions_in(order.as_ref(), start, into);
        let rows = PackedRows::pack(&self.lengths, in_order, self.length, self.window, self.packing)?;
        let order = self.permutation(Purpose::PackedRows, rows.len(), epoch);
        let batches = self.last_batch.batches(rows.len(), self.rows_per_batch);
        let (documents, rows_per_batch, length) = (self.lengths.len(), self.rows_per_batch, self.length);
        Ok(Box::new(FitBatches { rows, order, documents, rows_per_batch, length, batches }))
    }

    fn identity(&self) -> String {
        let Self { lengths, length, rows_per_batch, packing, window, last_batch, shuffling } = self;
        let (len, digest) = (lengths.len(), digest(lengths.iter().map(|length| length as u64)));
        format!(
            "PackedBatchSampler(len={len}, lengths={digest:016x}, length={length}, rows_per_batch={rows_per_batch}, \
             packing={packing:?}, window={window}, last_batch={last_batch:?}, shuffling={shuffling:?})"
        )
    }
}

fn position_in(order: Option<&Permutation>, position: usize) -> usize {
    order.map_or(position, |order| order.index_at(position as u64) as usize)
}

/// Writes the documents at the positions from `start` on to `into`.
fn positions_in(order: Option<&BulkPermutation>, start: usize, into: &mut [usize]) {
    match order {
        Some(order) => order.indices(start as u64, 1, into),
        None => into.iter_mut().zip(start..).for_each(|(into, position)| *into = position),
    }
}

/// Batches of rows packed by first fit or best fit.
struct FitBatches {
    rows: PackedRows,
    order: Option<Permutation>,
    documents: usize,
    rows_per_batch: usize,
    length: usize,
    batches: usize,
}

impl EpochBatches for FitBatches {
    fn len(&self) -> usize {
        self.batches
    }

    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>) {
        assert!(batch_in_epoch < self.batches, "batch {batch_in_epoch} of an epoch of {} batches", self.batches);
        into.clear();
        let first = batch_in_epoch * self.rows_per_batch;
        for place in first..first.saturating_add(self.rows_per_batch).min(self.rows.len()) {
            let row = position_in(self.order.as_ref(), place);
            into.extend(self.rows.pieces(row).enumerate().map(|(piece, (document, number))| {
                PieceCode { document, start: number * self.length, begins_row: piece == 0 }.index(self.documents)
            }));
        }
    }
}

/// Batches of rows that are cut from consecutive documents.
struct ConcatBatches {
    lengths: Arc<CompactNumbers>,
    order: Option<Permutation>,
    length: usize,
    rows_per_batch: usize,
    /// For each batch, the position of the document in which it begins; `starts` has the token within that document.
    positions: CompactNumbers,
    starts: CompactNumbers,
}

impl ConcatBatches {
    fn new(sampler: &PackedBatchSampler, order: Option<Permutation>) -> Result<Self> {
        let PackedBatchSampler { lengths, length, rows_per_batch, .. } = sampler;
        let per_batch = length * rows_per_batch;
        let (mut tokens, mut longest) = (0_u128, 0);
        lengths.visit(|length| {
            tokens += length as u128;
            longest = longest.max(length);
        })?;
        let batches = match sampler.last_batch {
            LastBatch::Keep => tokens.div_ceil(per_batch as u128),
            LastBatch::Drop => tokens / per_batch as u128,
        };
        let batches = usize::try_from(batches).unwrap_or(usize::MAX);
        let mut positions = CompactNumbers::zeros(batches, lengths.len(), "lengths")?;
        let mut starts = CompactNumbers::zeros(batches, longest, "lengths")?;
        let (mut batch, mut until_next) = (0, 0);
        let bulk = order.clone().map(BulkPermutation::new);
        let mut block = vec![0; BLOCK.min(lengths.len())];
        watch::expect(lengths.len());
        for start in (0..lengths.len()).step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(lengths.len() - start)];
            watch::advance(block.len())?;
            positions_in(bulk.as_ref(), start, block);
            lengths.look_up(block);
            for (position, &length) in (start..).zip(&*block) {
                while until_next < length && batch < batches {
                    positions.set(batch, position);
                    starts.set(batch, until_next);
                    (batch, until_next) = (batch + 1, until_next.saturating_add(per_batch));
                }
                until_next = until_next.saturating_sub(length);
            }
        }
        let (lengths, length, rows_per_batch) = (Arc::clone(lengths), *length, *rows_per_batch);
        Ok(Self { lengths, order, length, rows_per_batch, positions, starts })
    }
}

impl EpochBatches for ConcatBatches {
    fn len(&self) -> usize {
        self.positions.len()
    }

    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>) {
        let (len, documents) = (self.len(), self.lengths.len());
        assert!(batch_in_epoch < len, "batch {batch_in_epoch} of an epoch of {len} batches");
        into.clear();
        let (mut position, mut start) = (self.positions.get(batch_in_epoch), self.starts.get(batch_in_epoch));
        for _ in 0..self.rows_per_batch {
            let mut room = self.length;
            while room > 0 && position < documents {
                let document = position_in(self.order.as_ref(), position);
                let rest = self.lengths.get(document) - start;
                if rest > 0 {
                    into.push(PieceCode { document, start, begins_row: room == self.length }.index(documents));
                }
                if rest > room {
                    (start, room) = (start + room, 0);
                } else {
                    (position, start, room) = (position + 1, 0, room - rest);
                }
            }
        }
    }
}
