//! [`EvenBlocks`]: computes the random order of blocks of one size.

use std::ops::Range;

use super::shuffled_blocks::{ShuffledBlocks, Window};
use crate::rng::{BulkPermutation, Permutation};

/// Blocks of one size (the last may be smaller) in the random order of an epoch, computed without stored state.
pub(super) struct EvenBlocks {
    len: u64,
    block: u64,
    /// Number of blocks in a window.
    window: u64,
    /// The position of the last block, the only one that may be smaller, in the order of blocks.
    last_place: u64,
    /// How many samples the last block lacks compared to the others.
    missing: u128,
    blocks: BulkPermutation,
}

impl EvenBlocks {
    /// Returns `len` samples in blocks of `block`, in windows of `window` blocks, in the order of (seed, epoch).
    pub(super) fn new(len: u64, block: u64, window: u64, (seed, epoch): (u64, u64)) -> Self {
        let blocks = len.div_ceil(block);
        let order = Permutation::new(blocks, seed, epoch);
        Self {
            len,
            block,
            // A window larger than the number of blocks contains all of them.
            window: window.min(blocks.max(1)),
            // Only positions after the last block are shifted by its missing samples.
            last_place: if blocks == 0 { 0 } else { order.position_of(blocks - 1) },
            missing: u128::from(blocks) * u128::from(block) - u128::from(len),
            blocks: BulkPermutation::new(order),
        }
    }

    /// Returns the positions, in the order of blocks, of this window's blocks.
    fn blocks_of(&self, window: &Window) -> Range<u64> {
        let first = window.number * self.window;
        first..self.blocks.len().min(first + self.window)
    }

    /// Returns the position, in the order of blocks, of the `nth` block in a window. The smaller block is moved to the
    /// end of its window, so that all blocks before it are full.
    fn place_of(&self, blocks: &Range<u64>, nth: u64) -> u64 {
        let place = blocks.start + nth;
        match self.last_place {
            last if !blocks.contains(&last) || place < last => place,
            last if place + 1 == blocks.end => last,
            _ => place + 1,
        }
    }
}

impl ShuffledBlocks for EvenBlocks {
    /// If all blocks were full, a division would give the window; after the window of the smaller block, all positions
    /// are earlier by the samples that this block lacks.
    fn window_of(&self, position: u64) -> Window {
        let full = u128::from(self.window) * u128::from(self.block);
        let smaller = self.last_place / self.window;
        let place = u128::from(position);
        let smaller_block_end = u128::from(smaller + 1) * full - self.missing;
        let number =
            if place < smaller_block_end { (place / full) as u64 } else { ((place + self.missing) / full) as u64 };
        // The window of the smaller block ends sooner, so a division may overshoot it, but never fall short.
        let number = if place < smaller_block_end { number.min(smaller) } else { number };
        let start_of = |number: u64| {
            let start = u128::from(number) * full - if number > smaller { self.missing } else { 0 };
            start.min(u128::from(self.len)) as u64
        };
        let (start, end) = (start_of(number), start_of(number + 1));
        Window { number, start, len: end - start }
    }

    fn look_up(&self, window: &Window, places: &mut [usize]) {
        let blocks = self.blocks_of(window);
        let split = |place: usize| (place as u64 / self.block, place as u64 % self.block);
        let len = (blocks.end - blocks.start) as usize;
        if len > places.len() {
            for place in places {
                let (nth, offset) = split(*place);
                *place = (self.blocks.index_at(self.place_of(&blocks, nth)) * self.block + offset) as usize;
            }
        } else {
            let mut order = vec![0; len];
            self.blocks.indices(blocks.start, 1, &mut order);
            for place in places {
                let (nth, offset) = split(*place);
                let block = order[(self.place_of(&blocks, nth) - blocks.start) as usize] as u64;
                *place = (block * self.block + offset) as usize;
            }
        }
    }
}
