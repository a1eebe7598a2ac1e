//! [`Blocks`]: samples that are read and decoded together.

use super::Dataset;

/// Samples stored in blocks (row groups, record batches, packed shards), each of which is read and decoded as a whole
/// and kept for a while. A caller that knows which samples it will request can have their blocks read ahead.
///
/// # Contract
/// - Nothing fails here: a damaged block is reported when one of its samples is read, with the same error.
/// - Announcing is optional: other blocks are still read, only later. Any thread may call any method at any time.
///
/// # Example
/// ```
/// use sluicegate::{BlockSize, Blocks};
///
/// /// A million samples in blocks of a thousand, of which a hundred may be kept.
/// struct Thousands;
///
/// impl Blocks for Thousands {
///     fn count(&self) -> usize { 1000 }
///     fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) { visit(index / 1000) }
///     fn size_of(&self, _block: usize) -> BlockSize { BlockSize { read: 4000, kept: 8000, limit: 800_000 } }
///     fn announce(&self, _block: usize) {}
/// }
/// let mut blocks = Vec::new();
/// Thousands.blocks_of(4321, &mut |block| blocks.push(block));
/// assert_eq!(blocks, [4]);
/// ```
pub trait Blocks {
    /// The number of blocks; they are numbered from 0.
    fn count(&self) -> usize;

    /// Calls `visit` with each block that contains sample `index`; never if there is no such sample or block.
    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize));

    /// The size of `block`, as far as it is known before the block is read.
    fn size_of(&self, block: usize) -> BlockSize;

    /// Asks the operating system to start reading `block`, unless it is already decoded; does not block.
    fn announce(&self, block: usize);
}

/// The size of a block, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize {
    /// Bytes to read from the file.
    pub read: usize,
    /// Bytes of memory while it is decoded and kept.
    pub kept: usize,
    /// Limit on the bytes of all kept blocks together, this one included.
    pub limit: usize,
}

impl BlockSize {
    /// The size of a block that does not exist.
    pub(crate) const NONE: Self = Self { read: 0, kept: 0, limit: 0 };
}

/// The blocks of several datasets, numbered one dataset after the other.
pub(super) struct BlocksOfParts {
    /// Per part, the number of blocks up to and including it.
    ends: Vec<usize>,
}

impl BlocksOfParts {
    pub(super) fn new<'a>(parts: impl Iterator<Item = &'a dyn Dataset>) -> Self {
        let counts = parts.map(|part| part.as_blocks().map_or(0, Blocks::count));
        let ends = counts.scan(0_usize, |end, count| {
            *end = end.saturating_add(count);
            Some(*end)
        });
        Self { ends: ends.collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The number of the first block of `part`.
    pub(super) fn start_of(&self, part: usize) -> usize {
        if part == 0 { 0 } else { self.ends[part - 1] }
    }

    /// Returns the part that contains `block`, and the block's number within it.
    pub(super) fn find(&self, block: usize) -> (usize, usize) {
        let part = self.ends.partition_point(|&end| end <= block);
        (part, block - self.start_of(part))
    }
}
