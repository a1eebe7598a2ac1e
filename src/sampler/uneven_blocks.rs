//! [`UnevenBlocks`]: blocks of any sizes in random order, using a table.

use super::block_ends::BlockEnds;
use super::shuffled_blocks::{ShuffledBlocks, Window};
use crate::error::{Error, Result};
use crate::rng::{BulkPermutation, Permutation};

/// Blocks of any sizes in the random order of an epoch.
///
/// All windows have the same number of blocks, so the start of a window is known only after adding the sizes of all
/// blocks before it: this is done once, when the order is created, and stored in 16 bytes per block.
pub(super) struct UnevenBlocks {
    /// Number of blocks in a window.
    window: usize,
    /// The end of each block in the order of the epoch, as the number of samples up to it.
    ends: Vec<u64>,
    /// For each block in this order: the offset from a position in this order of samples to the index there. It wraps
    /// around.
    shifts: Vec<usize>,
}

impl UnevenBlocks {
    /// Returns the blocks of `ends` in windows of `window`, in the order of (seed, epoch).
    pub(super) fn new(ends: &BlockEnds, window: u64, (seed, epoch): (u64, u64)) -> Result<Self> {
        let len = ends.len();
        let order = Permutation::new(len as u64, seed, epoch);
        let window = usize::try_from(window).unwrap_or(usize::MAX).min(len.max(1));
        let mut blocks = Self { window, ends: Vec::new(), shifts: Vec::new() };
        let reserved = blocks.ends.try_reserve_exact(len).and_then(|()| blocks.shifts.try_reserve_exact(len));
        reserved.map_err(|error| Error::InvalidArgument {
            argument: "block",
            reason: format!("no memory for an order of {len} blocks ({error}); free memory, or use larger blocks"),
        })?;
        // Temporarily holds the numbers of the blocks.
        blocks.shifts.resize(len, 0);
        let last = if len == 0 { 0 } else { order.position_of(len as u64 - 1) as usize };
        BulkPermutation::new(order).indices(0, 1, &mut blocks.shifts);
        // The last block comes last in its window, as in `EvenBlocks`, where only that block may be smaller.
        let behind = (last / window * window).saturating_add(window).min(len);
        if last < behind {
            blocks.shifts[last..behind].rotate_left(1);
        }
        let mut end = 0_u64;
        for shift in &mut blocks.shifts {
            let (start, samples) = ends.block(*shift);
            *shift = start.wrapping_sub(end) as usize;
            end += samples;
            blocks.ends.push(end);
        }
        Ok(blocks)
    }

    /// Returns the start of window `number`.
    fn start_of(&self, number: usize) -> u64 {
        let first = number.saturating_mul(self.window).min(self.ends.len());
        if first == 0 { 0 } else { self.ends[first - 1] }
    }
}

impl ShuffledBlocks for UnevenBlocks {
    fn window_of(&self, position: u64) -> Window {
        // Find the last window that starts at or before the position: no window is empty.
        let (mut number, mut behind) = (0, self.ends.len().div_ceil(self.window));
        while behind - number > 1 {
            let middle = number + (behind - number) / 2;
            if self.start_of(middle) <= position {
                number = middle;
            } else {
                behind = middle;
            }
        }
        let (start, end) = (self.start_of(number), self.start_of(number + 1));
        Window { number: number as u64, start, len: end - start }
    }

    fn look_up(&self, window: &Window, places: &mut [usize]) {
        let first = window.number as usize * self.window;
        let last = self.ends.len().min(first + self.window);
        let (ends, shifts) = (&self.ends[first..last], &self.shifts[first..last]);
        for place in places {
            let behind = window.start + *place as u64;
            let block = ends.partition_point(|&end| end <= behind);
            *place = (behind as usize).wrapping_add(shifts[block]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::even_blocks::EvenBlocks;
    use super::*;

    #[test]
    fn equal_blocks_have_the_order_of_even_blocks() {
        for (len, block, window) in [(5, 5, 1), (21, 3, 2), (20, 3, 2), (1199, 4, 9), (5000, 2, 1000), (191, 10, 99)] {
            let keys = (7, 3);
            let sizes = (0..u64::div_ceil(len, block)).map(|number| Ok(block.min(len - number * block) as usize));
            let ends = BlockEnds::new(sizes).expect("they have a sum");
            let uneven = UnevenBlocks::new(&ends, window, keys).expect("there is memory");
            let even = EvenBlocks::new(len, block, window, keys);
            for position in 0..len {
                let (found, expected) = (uneven.window_of(position), even.window_of(position));
                assert_eq!((found.number, found.start, found.len), (expected.number, expected.start, expected.len));
                let (mut index, mut same) = ([(position - found.start) as usize], [(position - found.start) as usize]);
                uneven.look_up(&found, &mut index);
                even.look_up(&expected, &mut same);
                assert_eq!(index, same, "position {position} of {len} in {block}");
            }
        }
    }
}
