//! [`BlockEnds`]: consecutive blocks of any sizes.

use crate::error::{Error, Result};
use crate::rng::digest;

/// The end of each block, as the number of samples up to it: 8 bytes per block. Empty blocks are omitted.
#[derive(Debug)]
pub(super) struct BlockEnds {
    ends: Vec<u64>,
    digest: u64,
}

impl BlockEnds {
    /// Returns the ends of blocks of these sizes.
    pub(super) fn new(sizes: impl IntoIterator<Item = Result<usize>>) -> Result<Self> {
        let sizes = sizes.into_iter();
        let mut ends = Vec::new();
        let invalid = |reason| Error::invalid("block", reason);
        let no_memory = |error| invalid(format!("out of memory for the sizes of all blocks ({error})"));
        ends.try_reserve(sizes.size_hint().0).map_err(no_memory)?;
        let mut end = 0_usize;
        for size in sizes {
            let size = size?;
            if size > 0 {
                let sum = end.checked_add(size);
                end = sum.ok_or_else(|| invalid("the blocks have more samples than can be counted".to_owned()))?;
                ends.try_reserve(1).map_err(no_memory)?;
                ends.push(end as u64);
            }
        }
        ends.shrink_to_fit();
        Ok(Self { digest: digest(ends.iter().copied()), ends })
    }

    /// Returns the number of blocks.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of samples.
    pub(super) fn samples(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns a digest that distinguishes lists of blocks.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the first sample of `block`, and its number of samples.
    pub(super) fn block(&self, block: usize) -> (u64, u64) {
        let start = if block == 0 { 0 } else { self.ends[block - 1] };
        (start, self.ends[block] - start)
    }

    /// Returns the block size if all blocks have the same one, except that the last may be smaller; 1 without blocks.
    pub(super) fn even_size(&self) -> Option<u64> {
        let Some(&size) = self.ends.first() else { return Some(1) };
        let last = self.len() - 1;
        let is_even = (1..last).all(|block| self.block(block).1 == size) && self.block(last).1 <= size;
        is_even.then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(sizes: &[usize]) -> BlockEnds {
        BlockEnds::new(sizes.iter().map(|&size| Ok(size))).expect("they have a sum")
    }

    #[test]
    fn blocks_are_even_if_only_the_last_is_smaller() {
        for (sizes, even) in [
            (&[][..], Some(1)),
            (&[0, 0], Some(1)),
            (&[5], Some(5)),
            (&[5, 5, 0, 5], Some(5)),
            (&[5, 5, 2], Some(5)),
            (&[5, 6], None),
            (&[5, 4, 5], None),
            (&[2, 5, 5], None),
        ] {
            assert_eq!(ends(sizes).even_size(), even, "{sizes:?}");
        }
    }

    #[test]
    fn empty_blocks_are_left_out() {
        let some = ends(&[0, 3, 0, 0, 7, 0]);
        assert_eq!((some.len(), some.samples(), some.block(0), some.block(1)), (2, 10, (0, 3), (3, 7)));
        assert_eq!(some.digest(), ends(&[3, 7]).digest());
        assert_ne!(some.digest(), ends(&[7, 3]).digest());
    }

    #[test]
    fn sizes_without_a_sum_are_refused() {
        let sizes = [usize::MAX, 1].map(Ok);
        assert!(BlockEnds::new(sizes).is_err_and(|error| error.to_string().contains("than can be counted")));
    }
}
