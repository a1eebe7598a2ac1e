//! [`Blocks`]: samples that are read and decoded together.

use super::Dataset;

/// Samples that lie in blocks (row groups, record batches, packed shards), each of which is read and decoded as a whole and
/// kept for a while: who knows which samples will be asked for can have their blocks read ahead of time.
///
/// # Contract
/// - Nothing fails here: what is wrong with a block is said when a sample of it is read, in the same words.
/// - What was not asked for here is read all the same, only later. Any thread may ask for anything, at any time.
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
    /// The number of blocks. They have the numbers below it.
    fn count(&self) -> usize;

    /// Calls `visit` with each block that sample `index` is in; with none where there is no such sample, or it is in none.
    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize));

    /// How large `block` is, as far as that is known before it is read.
    fn size_of(&self, block: usize) -> BlockSize;

    /// Has the operating system begin to read `block`, unless it is decoded, and waits for nothing.
    fn announce(&self, block: usize);
}

/// The size of a block, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize {
    /// So many are read of the file.
    pub read: usize,
    /// So many it has when it is decoded and kept.
    pub kept: usize,
    /// So many all blocks that are kept beside it may have together with it.
    pub limit: usize,
}

impl BlockSize {
    /// That of a block which is not there.
    pub(crate) const NONE: Self = Self { read: 0, kept: 0, limit: 0 };
}

/// The blocks of several datasets, numbered one dataset after the other.
pub(super) struct BlocksOfParts {
    /// By part, the number of blocks up to its end.
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

    /// The part that `block` is in, and its number there.
    pub(super) fn find(&self, block: usize) -> (usize, usize) {
        let part = self.ends.partition_point(|&end| end <= block);
        (part, block - self.start_of(part))
    }
}
