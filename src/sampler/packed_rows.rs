//! [`PackedRows`]: rows of one length, into which pieces of documents were packed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::compact::CompactNumbers;
use super::packing::Packing;
use crate::error::Result;
use crate::watch;

/// Number of documents to look up at once.
const BLOCK: usize = 1 << 13;

/// Number of tree nodes to fill at once.
const ROOMS: usize = 1 << 20;

/// A placeholder for a missing row.
const NONE: usize = usize::MAX;

/// Records which pieces are in which row. A document is cut from its start into pieces as long as a row; the rest, or a
/// whole shorter document, is the last piece.
pub(super) struct PackedRows {
    /// The pieces by row: the document, plus the number of documents for each earlier piece of the same document.
    pieces: CompactNumbers,
    /// Where each row begins in `pieces`, followed by the end of the last one.
    starts: CompactNumbers,
    documents: usize,
}

impl PackedRows {
    /// Packs documents in the order that `documents_at` returns, `window` of them at a time, into rows of `length`
    /// tokens.
    pub(super) fn pack(
        lengths: &CompactNumbers,
        documents_at: impl Fn(usize, &mut [usize]),
        length: usize,
        window: usize,
        packing: Packing,
    ) -> Result<Self> {
        let documents = lengths.len();
        let (mut count, mut longest) = (0, 0);
        lengths.visit(|tokens| {
            // A division costs as much as everything else here, and most documents fit into a row.
            count += if tokens <= length { usize::from(tokens > 0) } else { tokens.div_ceil(length) };
            longest = longest.max(tokens);
        })?;
        let most = longest.div_ceil(length).max(1);
        let mut rows = Self {
            pieces: CompactNumbers::zeros(count, documents * most, "lengths")?,
            starts: CompactNumbers::zeros(count + 1, count, "lengths")?,
            documents,
        };
        let (mut row_count, mut piece_count) = (0, 0);
        let mut rests: Vec<(usize, usize)> = Vec::with_capacity(window.min(documents));
        let (mut block, mut sizes) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        watch::expect(documents);
        for start in (0..documents).step_by(window) {
            rests.clear();
            let end = start.saturating_add(window).min(documents);
            for from in (start..end).step_by(BLOCK) {
                block.resize(BLOCK.min(end - from), 0);
                watch::advance(block.len())?;
                documents_at(from, &mut block);
                sizes.clone_from(&block);
                lengths.look_up(&mut sizes);
                for (&document, &tokens) in block.iter().zip(&sizes) {
                    let (mut rest, mut piece) = (tokens, document);
                    while rest >= length {
                        rows.pieces.set(piece_count, piece);
                        (row_count, piece_count) = (row_count + 1, piece_count + 1);
                        rows.starts.set(row_count, piece_count);
                        (rest, piece) = (rest - length, piece + documents);
                    }
                    if rest > 0 {
                        rests.push((rest, piece));
                    }
                }
            }
            if packing == Packing::BestFit {
                rests = longest_first(rests)?;
            }
            let (row_of, count) = match packing {
                Packing::BestFit => best_fit(&rests, length)?,
                _ => first_fit(&rests, length)?,
            };
            // Where the next piece of each row is written.
            let mut ends = vec![0_usize; count + 1];
            for block in row_of.chunks(BLOCK) {
                watch::advance(0)?;
                block.iter().for_each(|&row| ends[row + 1] += 1);
            }
            for first in (0..count).step_by(BLOCK) {
                watch::advance(0)?;
                for row in first..count.min(first + BLOCK) {
                    ends[row + 1] += ends[row];
                    rows.starts.set(row_count + row + 1, piece_count + ends[row + 1]);
                }
            }
            for (row_of, rests) in row_of.chunks(BLOCK).zip(rests.chunks(BLOCK)) {
                watch::advance(0)?;
                for (&row, &(_, piece)) in row_of.iter().zip(rests) {
                    rows.pieces.set(piece_count + ends[row], piece);
                    ends[row] += 1;
                }
            }
            (row_count, piece_count) = (row_count + count, piece_count + rests.len());
            // Freeing memory takes time, too.
            drop((row_of, ends));
            watch::advance(0)?;
        }
        drop(rests);
        watch::advance(0)?;
        rows.starts.truncate(row_count + 1);
        Ok(rows)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the pieces of a row: the document, and how many of its pieces come before this one.
    pub(super) fn pieces(&self, row: usize) -> impl Iterator<Item = (usize, usize)> {
        (self.starts.get(row)..self.starts.get(row + 1)).map(|place| {
            let piece = self.pieces.get(place);
            (piece % self.documents, piece / self.documents)
        })
    }
}

/// Sorts pieces by tokens, largest first; the sort is stable.
fn longest_first(mut pieces: Vec<(usize, usize)>) -> Result<Vec<(usize, usize)>> {
    let most = pieces.iter().map(|&(tokens, _)| tokens).max().unwrap_or(0);
    // Counting is faster than comparing unless there are many more sizes than pieces.
    if most / 4 >= pieces.len() {
        pieces.sort_by_key(|&(tokens, _)| Reverse(tokens));
        return Ok(pieces);
    }
    let mut next = vec![0_usize; most + 1];
    for block in pieces.chunks(BLOCK) {
        watch::advance(0)?;
        block.iter().for_each(|&(tokens, _)| next[most - tokens] += 1);
    }
    let mut end = 0;
    for next in &mut next {
        (end, *next) = (end + *next, end);
    }
    let mut sorted = vec![(0, 0); pieces.len()];
    for block in pieces.chunks(BLOCK) {
        watch::advance(0)?;
        for &piece in block {
            let place = &mut next[most - piece.0];
            sorted[*place] = piece;
            *place += 1;
        }
    }
    Ok(sorted)
}

/// Returns the row of each piece, and the number of rows: each piece goes into the row with the least sufficient room;
/// among equals, into the one that was filled last.
fn best_fit(pieces: &[(usize, usize)], length: usize) -> Result<(Vec<usize>, usize)> {
    // By room, the row that was filled last; `earlier` links each row to the previously filled one with the same room.
    let mut by_room: BTreeMap<usize, usize> = BTreeMap::new();
    let mut earlier: Vec<usize> = Vec::new();
    let rows = pieces.iter().enumerate().map(|(place, &(tokens, _))| {
        if place % BLOCK == 0 {
            watch::advance(0)?;
        }
        let (room, row) = match by_room.range_mut(tokens..).next() {
            Some((&room, last)) => {
                let row = *last;
                *last = earlier[row];
                if *last == NONE {
                    by_room.remove(&room);
                }
                (room, row)
            }
            None => {
                earlier.push(NONE);
                (length, earlier.len() - 1)
            }
        };
        if room > tokens {
            earlier[row] = by_room.insert(room - tokens, row).unwrap_or(NONE);
        }
        Ok(row)
    });
    let rows = rows.collect::<Result<_>>()?;
    Ok((rows, earlier.len()))
}

/// Returns the row of each piece, and the number of rows: each piece goes into the first row with room.
fn first_fit(pieces: &[(usize, usize)], length: usize) -> Result<(Vec<usize>, usize)> {
    // A tree with a leaf for each possible row: a node stores the largest room below it.
    let leaves = pieces.len().next_power_of_two();
    let mut room = Vec::with_capacity(2 * leaves);
    while room.len() < 2 * leaves {
        // This writes to the memory for the first time, which takes seconds for the largest windows.
        watch::advance(0)?;
        room.resize((2 * leaves).min(room.len() + ROOMS), length);
    }
    let mut count = 0;
    let rows = pieces.iter().enumerate().map(|(place, &(tokens, _))| {
        if place % BLOCK == 0 {
            watch::advance(0)?;
        }
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
        Ok(row)
    });
    let rows = rows.collect::<Result<_>>()?;
    drop(room);
    watch::advance(0)?;
    Ok((rows, count))
}
