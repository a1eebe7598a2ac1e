//! [`BlockShuffleSampler`]: whole blocks in random order, shuffled inside of windows of blocks.

use std::ops::Range;

use super::{EpochOrder, Sampler};
use crate::error::{Error, Result};
use crate::rng::{BulkPermutation, Permutation, PermutationSeries, Series};

/// Every index once: blocks of neighbouring indices come in random order, and the samples of every `window` successive
/// blocks are shuffled among each other.
///
/// For data that is read block by block: pages of a disk, row groups, compressed frames. A reader that keeps the blocks of
/// one window reads each block once an epoch, and in few large requests. With a window of all blocks it is a full shuffle,
/// with a window of one the samples stay with their block.
///
/// Nothing is stored, and any position costs two permutations: some tens of nanoseconds.
///
/// # Example
/// ```
/// use sluicegate::{BlockShuffleSampler, Sampler};
///
/// let order = BlockShuffleSampler::new(1000, 100, 2, 7)?.order(0)?;
/// let mut window: Vec<usize> = (0..200).map(|position| order.index_at(position) / 100).collect();
/// window.sort();
/// window.dedup();
/// assert_eq!(window.len(), 2); // 200 samples from two blocks
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockShuffleSampler {
    len: usize,
    block: usize,
    window: usize,
    seed: u64,
}

impl BlockShuffleSampler {
    /// A sampler for `len` samples in blocks of `block`, of which the last may be smaller. Every seed is legal.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `block` or `window` is 0.
    pub fn new(len: usize, block: usize, window: usize, seed: u64) -> Result<Self> {
        let positive = |argument, number| match number {
            0 => {
                let reason = format!("{argument} should be a positive integer value, but got {argument}=0");
                Err(Error::InvalidArgument { argument, reason })
            }
            _ => Ok(()),
        };
        positive("block", block)?;
        positive("window", window)?;
        Ok(BlockShuffleSampler { len, block, window, seed })
    }
}

impl Sampler for BlockShuffleSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        let (len, block) = (self.len as u64, self.block as u64);
        let blocks = len.div_ceil(block);
        // A window of more blocks than there are is one of all.
        let window = (self.window as u64).min(blocks.max(1));
        let order = Permutation::new(blocks, self.seed, epoch);
        Ok(Box::new(BlockShuffleOrder {
            len,
            block,
            window,
            // The last block is missed by those behind it alone.
            last_place: if blocks == 0 { 0 } else { order.position_of(blocks - 1) },
            missing: u128::from(blocks) * u128::from(block) - u128::from(len),
            blocks: BulkPermutation::new(order),
            windows: PermutationSeries::new(Series::Window, self.seed, epoch),
        }))
    }

    fn identity(&self) -> String {
        let BlockShuffleSampler { len, block, window, seed } = self;
        format!("BlockShuffleSampler(len={len}, block={block}, window={window}, seed={seed})")
    }
}

struct BlockShuffleOrder {
    len: u64,
    block: u64,
    /// How many blocks a window has.
    window: u64,
    /// Where in the order of blocks the last one comes, the only one that may be smaller.
    last_place: u64,
    /// How many samples the last block has less than the others.
    missing: u128,
    blocks: BulkPermutation,
    windows: PermutationSeries,
}

/// A window of an epoch: which it is, the position where it starts and its number of samples.
struct Window {
    number: u64,
    start: u64,
    len: u64,
}

impl BlockShuffleOrder {
    /// The window that `position` is in. If all blocks were full, a division would tell; from the window of the smaller
    /// block on, all come earlier by what that block misses.
    fn window_of(&self, position: u64) -> Window {
        let full = u128::from(self.window) * u128::from(self.block);
        let smaller = self.last_place / self.window;
        let place = u128::from(position);
        let end_of_smaller = u128::from(smaller + 1) * full - self.missing;
        let number =
            if place < end_of_smaller { (place / full) as u64 } else { ((place + self.missing) / full) as u64 };
        // The window of the smaller block ends sooner, so a division may lead past it, never short of it.
        let number = if place < end_of_smaller { number.min(smaller) } else { number };
        let start_of = |number: u64| {
            let start = u128::from(number) * full - if number > smaller { self.missing } else { 0 };
            start.min(u128::from(self.len)) as u64
        };
        let (start, end) = (start_of(number), start_of(number + 1));
        Window { number, start, len: end - start }
    }

    /// The places, in the order of blocks, of the blocks of this window.
    fn blocks_of(&self, window: &Window) -> Range<u64> {
        let first = window.number * self.window;
        first..self.blocks.len().min(first + self.window)
    }

    /// The place, in the order of blocks, of the block that comes `nth` in a window. The smaller block comes last there, so
    /// that all before it are full.
    fn place_of(&self, blocks: &Range<u64>, nth: u64) -> u64 {
        let place = blocks.start + nth;
        match self.last_place {
            last if !blocks.contains(&last) || place < last => place,
            last if place + 1 == blocks.end => last,
            _ => place + 1,
        }
    }

    /// Replaces places in the window by the indices of the samples there.
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

    fn check(&self, position: u64) {
        assert!(position < self.len, "position {position} of an order of {} indices", self.len);
    }
}

impl EpochOrder for BlockShuffleOrder {
    fn len(&self) -> usize {
        self.len as usize
    }

    fn index_at(&self, position: usize) -> usize {
        let position = position as u64;
        self.check(position);
        let window = self.window_of(position);
        let place = self.windows.at(window.number, window.len).index_at(position - window.start);
        let mut index = [place as usize];
        self.look_up(&window, &mut index);
        index[0]
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        let (mut position, step) = (start as u64, step as u64);
        let mut rest = into;
        while !rest.is_empty() {
            self.check(position);
            let window = self.window_of(position);
            let in_window = position - window.start;
            let here = (window.len - in_window).div_ceil(step.max(1)).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(here as usize);
            self.windows.at(window.number, window.len).indices(in_window, step, now);
            self.look_up(&window, now);
            position = position.saturating_add(here.saturating_mul(step));
            rest = later;
        }
    }
}
