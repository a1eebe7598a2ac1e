//! [`PackRows`]: pieces of documents in rows of one length.

use std::ops::Range;

use super::BatchLayout;
use crate::{Column, DType, Error, Field, Result};

/// The label that loss functions ignore, in torch and in Hugging Face's models.
const IGNORED: i64 = -100;

/// The document number in a row that marks padding.
const PADDING: i64 = -1;

/// Lays pieces of documents into rows of `length` tokens. The batch has these fields:
///
/// - `input_ids`, int64, (rows, length): the tokens;
/// - `labels`, int64, (rows, length): the prediction targets, -100 where nothing is predicted: see [`PackedLabels`];
/// - `position_ids`, int64, (rows, length): counted from 0 in each piece;
/// - `document_ids`, int64, (rows, length): the number of the piece in its row, counted from 0; -1 for padding;
/// - `cu_seqlens`, int32, (pieces + 1): where each piece begins when rows are concatenated, and where the last one
///   ends. Padding is a separate piece.
///
/// # Example
/// ```
/// use sluicegate::internal::{PackRows, PackedLabels};
/// let collate = PackRows { length: 5, pad_token: 0, labels: PackedLabels::Same };
/// let pieces = collate.pieces([(3, true), (1, false)])?;
/// let layout = collate.layout(&pieces)?;
/// let mut bytes = vec![0; layout.bytes];
/// for (tokens, into) in [vec![7_i64, 8, 9], vec![5]].iter().zip(pieces.rooms(&layout, &mut bytes)) {
///     into.copy_from_slice(&tokens.iter().flat_map(|token| token.to_ne_bytes()).collect::<Vec<_>>());
/// }
/// collate.fill(&pieces, &layout, &mut bytes);
/// let ends: Vec<u8> = [0_i32, 3, 4, 5].iter().flat_map(|end| end.to_ne_bytes()).collect();
/// assert_eq!(bytes[layout.columns[4].offset()..][..16], ends);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackRows {
    /// Number of tokens in a row.
    pub length: usize,
    /// The token to pad with.
    pub pad_token: i64,
    /// The prediction targets.
    pub labels: PackedLabels,
}

/// The labels of packed rows. A label never crosses into another document, and padding has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackedLabels {
    /// The tokens themselves, except the first one of each piece, for models that shift the labels.
    #[default]
    Same,
    /// For each token, the next token in its piece; none for the last.
    Shifted,
}

/// The values that labels are made of.
#[derive(Clone, Copy)]
enum LabelSource {
    Tokens,
    Own,
}

/// The consecutive pieces of a batch, with the padding between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedPieces {
    rows: usize,
    spans: Vec<Span>,
}

/// Tokens of one document in one row, or padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    tokens: usize,
    document_in_row: i64,
}

impl PackedPieces {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of tokens that each piece has room for.
    pub fn tokens(&self) -> impl Iterator<Item = usize> {
        self.spans.iter().filter(|span| span.document_in_row != PADDING).map(|span| span.tokens)
    }

    /// Returns the token ranges of all pieces and padding in the concatenated rows, counted from the first token of the
    /// batch, each with true if it is padding.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Range<usize>, bool)> {
        self.spans.iter().scan(0, |end, span| {
            let start = *end;
            *end += span.tokens;
            Some((start..*end, span.document_in_row == PADDING))
        })
    }

    /// Returns the room for the tokens of each piece in `bytes`, a slot of this layout, piece by piece.
    pub fn rooms<'a>(&'a self, layout: &BatchLayout, bytes: &'a mut [u8]) -> impl Iterator<Item = &'a mut [u8]> {
        let mut rest = &mut bytes[layout.columns[0].offset()..];
        self.spans.iter().filter_map(move |span| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(span.tokens * size_of::<i64>());
            rest = later;
            (span.document_in_row != PADDING).then_some(now)
        })
    }
}

impl PackRows {
    /// Computes the positions of pieces, given each piece's maximum number of tokens, and true if it begins a row.
    /// Tokens that do not fit into a row are dropped.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the first piece does not begin a row, a piece has no room or no tokens, or there
    /// are more tokens than an int32 can count.
    pub fn pieces(&self, pieces: impl IntoIterator<Item = (usize, bool)>) -> Result<PackedPieces> {
        let invalid = |reason: &str| Error::invalid("pieces", reason);
        let pieces = pieces.into_iter();
        let mut spans: Vec<Span> = Vec::with_capacity(pieces.size_hint().0 + 1);
        let (mut rows, mut room, mut number) = (0_usize, 0, 0);
        let pad = |room: usize, spans: &mut Vec<Span>| {
            if room > 0 {
                spans.push(Span { tokens: room, document_in_row: PADDING });
            }
        };
        for (tokens, begins_row) in pieces {
            if begins_row {
                pad(room, &mut spans);
                (rows, room, number) = (rows + 1, self.length, 0);
            } else if rows == 0 {
                return Err(invalid("the first piece of a batch must begin a row"));
            }
            let tokens = tokens.min(room);
            if tokens == 0 {
                return Err(invalid("a piece must have at least one token, and must fit into its row"));
            }
            spans.push(Span { tokens, document_in_row: number });
            (room, number) = (room - tokens, number + 1);
        }
        pad(room, &mut spans);
        if rows == 0 {
            return Err(invalid("a batch has at least one piece"));
        }
        if rows.checked_mul(self.length).is_none_or(|tokens| i32::try_from(tokens).is_err()) {
            return Err(invalid("cu_seqlens can't count more than 2^31 - 1 tokens in a batch"));
        }
        Ok(PackedPieces { rows, spans })
    }

    /// Returns the layout of a batch of these pieces.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the number of bytes overflows an address.
    pub fn layout(&self, pieces: &PackedPieces) -> Result<BatchLayout> {
        self.layout_with(pieces, &[])
    }

    /// Like [`layout`](Self::layout), followed by the fields `more`: each gets the shape (rows, length, ...), with one
    /// element of its own shape per token.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn layout_with(&self, pieces: &PackedPieces, more: &[Field]) -> Result<BatchLayout> {
        let mut layout = BatchLayout::with_room(pieces.rows, 5 + more.len());
        for name in ["input_ids", "labels", "position_ids", "document_ids"] {
            let field = Field::new(name, DType::Int64, [self.length]);
            let bytes_per_sample = field.bytes();
            let offset = layout.add(&field, pieces.rows, bytes_per_sample)?;
            layout.push(&field, Column::Fixed { offset, bytes_per_sample }, &[pieces.rows]);
        }
        let field = Field::new("cu_seqlens", DType::Int32, []);
        let offset = layout.add(&field, pieces.spans.len() + 1, size_of::<i32>())?;
        let column = Column::Fixed { offset, bytes_per_sample: size_of::<i32>() };
        layout.push(&field, column, &[pieces.spans.len() + 1]);
        for field in more {
            let shape = [&[self.length], field.shape()].concat();
            let field = Field::new(field.name(), field.dtype(), shape);
            let bytes_per_sample = field.bytes();
            let offset = layout.add(&field, pieces.rows, bytes_per_sample)?;
            layout.push(&field, Column::Fixed { offset, bytes_per_sample }, &[pieces.rows]);
        }
        Ok(layout)
    }

    /// Writes everything except the tokens, which are already in their [rooms](PackedPieces::rooms), and the fields
    /// that [`layout_with`](Self::layout_with) has added.
    pub fn fill(&self, pieces: &PackedPieces, layout: &BatchLayout, bytes: &mut [u8]) {
        self.fill_from(pieces, layout, bytes, LabelSource::Tokens);
    }

    /// Like [`fill`](Self::fill), for documents with separate labels, where label k belongs to token k: they are
    /// already in the labels' column, and are shifted or removed there as the tokens would be.
    pub fn fill_around_labels(&self, pieces: &PackedPieces, layout: &BatchLayout, bytes: &mut [u8]) {
        self.fill_from(pieces, layout, bytes, LabelSource::Own);
    }

    fn fill_from(&self, pieces: &PackedPieces, layout: &BatchLayout, bytes: &mut [u8], source: LabelSource) {
        let size = pieces.rows * self.length * size_of::<i64>();
        let offsets: Vec<usize> = layout.columns.iter().map(Column::offset).collect();
        let mut rest = bytes;
        let mut at = 0;
        // The columns are consecutive, in this order.
        let mut column = |offset: usize, size: usize| {
            let (column, later) = std::mem::take(&mut rest)[offset - at..].split_at_mut(size);
            (at, rest) = (offset + size, later);
            column
        };
        let [mut input_ids, mut labels, mut positions, mut documents] =
            [0, 1, 2, 3].map(|field| column(offsets[field], size).as_chunks_mut::<8>().0);
        let mut ends =
            column(offsets[4], (pieces.spans.len() + 1) * size_of::<i32>()).as_chunks_mut::<4>().0.iter_mut();
        let mut end = 0;
        let mut write_end = |end: usize| ends.next().into_iter().for_each(|into| *into = (end as i32).to_ne_bytes());
        write_end(0);
        for &Span { tokens, document_in_row } in &pieces.spans {
            let input_ids = split_off(&mut input_ids, tokens);
            let labels = split_off(&mut labels, tokens);
            let is_padding = document_in_row == PADDING;
            if is_padding {
                input_ids.fill(self.pad_token.to_ne_bytes());
                labels.fill(IGNORED.to_ne_bytes());
            } else {
                match (self.labels, source) {
                    (PackedLabels::Same, LabelSource::Tokens) => labels.copy_from_slice(input_ids),
                    (PackedLabels::Same, LabelSource::Own) => {}
                    (PackedLabels::Shifted, LabelSource::Tokens) => {
                        labels[..tokens - 1].copy_from_slice(&input_ids[1..]);
                    }
                    (PackedLabels::Shifted, LabelSource::Own) => labels.copy_within(1.., 0),
                }
                let ignored = if self.labels == PackedLabels::Same { 0 } else { tokens - 1 };
                labels[ignored] = IGNORED.to_ne_bytes();
            }
            let positions = split_off(&mut positions, tokens).iter_mut();
            (0_i64..).zip(positions).for_each(|(position, into)| *into = position.to_ne_bytes());
            split_off(&mut documents, tokens).fill(document_in_row.to_ne_bytes());
            end += tokens;
            write_end(end);
        }
    }
}

/// Splits the first `count` elements off.
fn split_off<'a, T>(rest: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (first, later) = std::mem::take(rest).split_at_mut(count);
    *rest = later;
    first
}
