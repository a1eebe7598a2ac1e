//! [`PackedRows`]: rows of one length that pieces of documents were fitted into.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::compact::CompactNumbers;
use super::packed_batch::Packing;
use crate::error::Result;

/// Which pieces are in which row. A document is cut into pieces as long as a row, from its start on; what is left, or all of
/// one that is shorter, is the last piece.
pub(super) struct PackedRows {
    /// Row after row: the document, plus the number of documents as often as there are pieces before this one.
    pieces: CompactNumbers,
    /// Where each row begins in `pieces`, and where the last one ends.
    starts: CompactNumbers,
    documents: usize,
}

impl PackedRows {
    /// Packs documents in the order `document_at`, `window` of them at a time, into rows of `length` tokens.
    pub(super) fn pack(
        lengths: &CompactNumbers,
        document_at: impl Fn(usize) -> usize,
        length: usize,
        window: usize,
        packing: Packing,
    ) -> Result<Self> {
        let documents = lengths.len();
        let count = lengths.iter().map(|tokens| tokens.div_ceil(length)).sum();
        let most = lengths.iter().max().unwrap_or(0).div_ceil(length).max(1);
        let mut rows = Self {
            pieces: CompactNumbers::zeros(count, documents * most, "lengths")?,
            starts: CompactNumbers::zeros(count + 1, count, "lengths")?,
            documents,
        };
        let (mut row_count, mut piece_count) = (0, 0);
        let mut rests: Vec<(usize, usize)> = Vec::with_capacity(window.min(documents));
        for start in (0..documents).step_by(window) {
            rests.clear();
            for document in (start..start.saturating_add(window).min(documents)).map(&document_at) {
                let tokens = lengths.get(document);
                for number in 0..tokens / length {
                    rows.pieces.set(piece_count, document + documents * number);
                    (row_count, piece_count) = (row_count + 1, piece_count + 1);
                    rows.starts.set(row_count, piece_count);
                }
                if !tokens.is_multiple_of(length) {
                    rests.push((tokens % length, document + documents * (tokens / length)));
                }
            }
            if packing == Packing::BestFit {
                // Stable: pieces of one length stay in their order.
                rests.sort_by_key(|&(tokens, _)| Reverse(tokens));
            }
            let (row_of, count) = match packing {
                Packing::BestFit => best_fit(&rests, length),
                _ => first_fit(&rests, length),
            };
            // Where the next piece of each row goes.
            let mut ends = vec![0_usize; count + 1];
            row_of.iter().for_each(|&row| ends[row + 1] += 1);
            (0..count).for_each(|row| ends[row + 1] += ends[row]);
            (1..=count).for_each(|row| rows.starts.set(row_count + row, piece_count + ends[row]));
            for (&row, &(_, piece)) in row_of.iter().zip(&rests) {
                rows.pieces.set(piece_count + ends[row], piece);
                ends[row] += 1;
            }
            (row_count, piece_count) = (row_count + count, piece_count + rests.len());
        }
        rows.starts.truncate(row_count + 1);
        Ok(rows)
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The pieces of a row: the document, and how many pieces of it come before this one.
    pub(super) fn pieces(&self, row: usize) -> impl Iterator<Item = (usize, usize)> {
        (self.starts.get(row)..self.starts.get(row + 1)).map(|place| {
            let piece = self.pieces.get(place);
            (piece % self.documents, piece / self.documents)
        })
    }
}

/// The row of each piece, and the number of rows: each into the one with the least room that is enough.
fn best_fit(pieces: &[(usize, usize)], length: usize) -> (Vec<usize>, usize) {
    let mut by_room: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut count = 0;
    let rows = pieces.iter().map(|&(tokens, _)| {
        let found = by_room.range_mut(tokens..).next().map(|(&room, rows)| (room, rows.pop(), rows.is_empty()));
        let (room, row) = match found {
            Some((room, Some(row), is_last)) => {
                if is_last {
                    by_room.remove(&room);
                }
                (room, row)
            }
            _ => {
                count += 1;
                (length, count - 1)
            }
        };
        if room > tokens {
            by_room.entry(room - tokens).or_default().push(row);
        }
        row
    });
    let rows = rows.collect();
    (rows, count)
}

/// The row of each piece, and the number of rows: each into the first one with room.
fn first_fit(pieces: &[(usize, usize)], length: usize) -> (Vec<usize>, usize) {
    // A tree over as many rows as there may be: a node has the most room below it.
    let leaves = pieces.len().next_power_of_two();
    let mut room = vec![length; 2 * leaves];
    let mut count = 0;
    let rows = pieces.iter().map(|&(tokens, _)| {
        let mut node = 1;
        while node < leaves {
            node = 2 * node + usize::from(room[2 * node] < tokens);
        }
        room[node] -= tokens;
        let row = node - leaves;
        count = count.max(row + 1);
        while node > 1 {
            node /= 2;
            room[node] = room[2 * node].max(room[2 * node + 1]);
        }
        row
    });
    let rows = rows.collect();
    (rows, count)
}
