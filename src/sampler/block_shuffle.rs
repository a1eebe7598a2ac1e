//! [`BlockShuffleSampler`]: whole blocks in random order, shuffled within windows of blocks.

use std::sync::Arc;

use super::block_ends::BlockEnds;
use super::even_blocks::EvenBlocks;
use super::shuffled_blocks::ShuffledBlocks;
use super::uneven_blocks::UnevenBlocks;
use super::{EpochOrder, Sampler, check_positive};
use crate::error::Result;
use crate::rng::{PermutationSeries, Series};

/// Yields every index once: blocks of neighboring indices in random order, with the samples of every `window`
/// successive blocks shuffled together.
///
/// For data that is read block by block: disk pages, row groups, compressed frames. A reader that caches the blocks of
/// one window reads each block once per epoch, in few large requests. A window of all blocks gives a full shuffle; with
/// a window of one, samples stay with their block.
///
/// Blocks of one size need no memory, and a position costs two permutations: some tens of nanoseconds. Blocks of [any
/// sizes](Self::with_blocks) take 8 bytes each, and 16 more in an order, which takes about ten nanoseconds per block to
/// create; a position then costs one permutation and a binary search.
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
    blocks: Blocks,
    window: usize,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Blocks {
    Even { len: usize, block: usize },
    Uneven(Arc<BlockEnds>),
}

impl BlockShuffleSampler {
    /// Returns a sampler for `len` samples in blocks of `block` (the last may be smaller). Every seed is valid.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `block` or `window` is 0.
    pub fn new(len: usize, block: usize, window: usize, seed: u64) -> Result<Self> {
        check_positive("block", block)?;
        check_positive("window", window)?;
        Ok(BlockShuffleSampler { blocks: Blocks::Even { len, block }, window, seed })
    }

    /// Returns a sampler for consecutive blocks of these `sizes`, such as the row groups that a filter keeps, or
    /// archives. Empty blocks are skipped and do not count toward a window.
    ///
    /// If all blocks have the same size (the last may be smaller), this equals [`new`](Self::new) with that size, in
    /// order and cost.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `window` is 0, the sum of the sizes overflows, or
    /// there is no memory for them.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{BlockShuffleSampler, Sampler};
    ///
    /// let order = BlockShuffleSampler::with_blocks([3, 0, 500, 20], 2, 7)?.order(0)?;
    /// assert_eq!(order.len(), 523);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn with_blocks(sizes: impl IntoIterator<Item = usize>, window: usize, seed: u64) -> Result<Self> {
        Self::try_with_blocks(sizes.into_iter().map(Ok), window, seed)
    }

    /// Like [`with_blocks`](Self::with_blocks), for sizes whose reading can fail.
    ///
    /// # Errors
    /// Those of `with_blocks`, and those of the iterator.
    pub fn try_with_blocks(sizes: impl IntoIterator<Item = Result<usize>>, window: usize, seed: u64) -> Result<Self> {
        check_positive("window", window)?;
        let ends = BlockEnds::new(sizes)?;
        let blocks = match ends.even_size() {
            Some(block) => Blocks::Even { len: ends.samples() as usize, block: block as usize },
            None => Blocks::Uneven(Arc::new(ends)),
        };
        Ok(BlockShuffleSampler { blocks, window, seed })
    }
}

impl Sampler for BlockShuffleSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        let (window, keys) = (self.window as u64, (self.seed, epoch));
        Ok(match &self.blocks {
            Blocks::Even { len, block } => {
                let blocks = EvenBlocks::new(*len as u64, *block as u64, window, keys);
                Box::new(BlockShuffleOrder::new(*len as u64, blocks, keys))
            }
            Blocks::Uneven(ends) => {
                let blocks = UnevenBlocks::new(ends, window, keys)?;
                Box::new(BlockShuffleOrder::new(ends.samples(), blocks, keys))
            }
        })
    }

    fn identity(&self) -> String {
        let BlockShuffleSampler { blocks, window, seed } = self;
        let blocks = match blocks {
            Blocks::Even { len, block } => format!("len={len}, block={block}"),
            Blocks::Uneven(ends) => {
                format!("len={}, blocks={}, ends={:016x}", ends.samples(), ends.len(), ends.digest())
            }
        };
        format!("BlockShuffleSampler({blocks}, window={window}, seed={seed})")
    }
}

struct BlockShuffleOrder<B> {
    len: u64,
    blocks: B,
    /// The order of the samples of each window.
    windows: PermutationSeries,
}

impl<B: ShuffledBlocks> BlockShuffleOrder<B> {
    fn new(len: u64, blocks: B, (seed, epoch): (u64, u64)) -> Self {
        BlockShuffleOrder { len, blocks, windows: PermutationSeries::new(Series::Window, seed, epoch) }
    }

    fn check(&self, position: u64) {
        assert!(position < self.len, "position {position} of an order of {} indices", self.len);
    }
}

impl<B: ShuffledBlocks> EpochOrder for BlockShuffleOrder<B> {
    fn len(&self) -> usize {
        self.len as usize
    }

    fn index_at(&self, position: usize) -> usize {
        let position = position as u64;
        self.check(position);
        let window = self.blocks.window_of(position);
        let place = self.windows.at(window.number, window.len).index_at(position - window.start);
        let mut index = [place as usize];
        self.blocks.look_up(&window, &mut index);
        index[0]
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        let (mut position, step) = (start as u64, step as u64);
        let mut rest = into;
        while !rest.is_empty() {
            self.check(position);
            let window = self.blocks.window_of(position);
            let in_window = position - window.start;
            let count = (window.len - in_window).div_ceil(step.max(1)).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(count as usize);
            self.windows.at(window.number, window.len).indices(in_window, step, now);
            self.blocks.look_up(&window, now);
            position = position.saturating_add(count.saturating_mul(step));
            rest = later;
        }
    }
}
