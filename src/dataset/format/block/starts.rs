//! [`BlockStarts`]: maps samples to blocks, by arithmetic if blocks have the same size.

use std::ops::Range;

use crate::{Error, Result};

/// The boundaries of consecutive blocks (row groups, record batches).
pub(crate) struct BlockStarts {
    /// The first sample of each block, and at the end the number of samples.
    starts: Vec<usize>,
    blocks_per_sample: f64,
}

/// The blocks that contain the samples of a batch.
pub(crate) struct FoundBlocks {
    /// Distinct blocks, in order.
    pub(crate) blocks: Vec<usize>,
    /// By block: how many of the samples are in it.
    pub(crate) counts: Vec<usize>,
    /// By row of the batch: the index of its block in `blocks`.
    pub(crate) of_rows: Vec<u32>,
}

impl BlockStarts {
    /// Creates the boundaries from the cumulative numbers of samples of blocks, which must be sorted.
    pub(crate) fn new(ends: impl IntoIterator<Item = usize>) -> Self {
        let starts: Vec<usize> = [0].into_iter().chain(ends).collect();
        let size = if starts.len() > 2 { starts[1] } else { usize::MAX };
        Self { starts, blocks_per_sample: 1.0 / size.max(1) as f64 }
    }

    /// Returns the number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of samples.
    pub(crate) fn samples(&self) -> usize {
        self.starts[self.len()]
    }

    /// Returns the samples of `block`.
    pub(crate) fn samples_of(&self, block: usize) -> Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    /// Returns the block that contains sample `index`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub(crate) fn of_sample(&self, index: usize) -> Result<usize> {
        // If all blocks have the same size, this is the block.
        let guess = (index as f64 * self.blocks_per_sample) as usize;
        if guess < self.len() && self.samples_of(guess).contains(&index) {
            return Ok(guess);
        }
        let block = self.starts[1..].partition_point(|&end| end <= index);
        if block < self.len() { Ok(block) } else { Err(Error::IndexOutOfRange { index, len: self.samples() }) }
    }

    /// Returns the block that contains sample `index`, and the sample's position in it.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub(crate) fn place(&self, index: usize) -> Result<(usize, usize)> {
        let block = self.of_sample(index)?;
        Ok((block, index - self.starts[block]))
    }

    /// Returns the blocks that contain the samples at `indices`.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`].
    pub(crate) fn find(&self, indices: &[usize]) -> Result<FoundBlocks> {
        let mut of_samples = Vec::with_capacity(indices.len());
        for &index in indices {
            of_samples.push(self.of_sample(index)?);
        }
        let (Some(&first), Some(&last)) = (of_samples.iter().min(), of_samples.iter().max()) else {
            return Ok(FoundBlocks { blocks: Vec::new(), counts: Vec::new(), of_rows: Vec::new() });
        };
        // The rows of a shuffled batch are in blocks at random: a table finds each without a branch that may be
        // mispredicted. If the blocks are few and far apart, the table would be too large.
        let span = last - first + 1;
        if span > 4 * indices.len() + 64 {
            let mut blocks = of_samples.clone();
            blocks.sort_unstable();
            blocks.dedup();
            let place = |block: &usize| blocks.partition_point(|other| other < block) as u32;
            let of_rows: Vec<u32> = of_samples.iter().map(place).collect();
            let mut counts = vec![0; blocks.len()];
            of_rows.iter().for_each(|&place| counts[place as usize] += 1);
            return Ok(FoundBlocks { blocks, counts, of_rows });
        }
        let mut table = vec![0_usize; span];
        of_samples.iter().for_each(|&block| table[block - first] += 1);
        let (mut blocks, mut counts) = (Vec::new(), Vec::new());
        for (block, place) in (first..).zip(&mut table) {
            if *place > 0 {
                counts.push(*place);
                *place = blocks.len();
                blocks.push(block);
            }
        }
        let of_rows = of_samples.iter().map(|&block| table[block - first] as u32).collect();
        Ok(FoundBlocks { blocks, counts, of_rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(starts: &BlockStarts, indices: &[usize]) {
        let found = starts.find(indices).unwrap();
        assert!(found.blocks.is_sorted_by(|a, b| a < b));
        for (&index, &place) in indices.iter().zip(&found.of_rows) {
            assert!(starts.samples_of(found.blocks[place as usize]).contains(&index));
        }
        for (place, &count) in found.counts.iter().enumerate() {
            assert!(count > 0);
            assert_eq!(found.of_rows.iter().filter(|&&of| of as usize == place).count(), count);
        }
    }

    #[test]
    fn every_sample_is_found_in_blocks_of_any_sizes() {
        for sizes in [vec![4, 4, 4, 2], vec![1, 0, 0, 7, 3], vec![0, 5], vec![9], vec![0, 0, 3, 3]] {
            let ends = sizes.iter().scan(0, |end, size| {
                *end += size;
                Some(*end)
            });
            let starts = BlockStarts::new(ends);
            let samples: usize = sizes.iter().sum();
            assert_eq!((starts.len(), starts.samples()), (sizes.len(), samples));
            check(&starts, &(0..samples).collect::<Vec<_>>());
            check(&starts, &(0..samples).rev().step_by(2).collect::<Vec<_>>());
            assert!(matches!(starts.of_sample(samples), Err(Error::IndexOutOfRange { .. })));
        }
    }

    #[test]
    fn every_sample_is_found_in_distant_blocks() {
        let starts = BlockStarts::new((1..=100_000).map(|end| end * 3));
        check(&starts, &[299_999, 0, 1, 150_000, 299_998, 0]);
        check(&starts, &[]);
    }
}
