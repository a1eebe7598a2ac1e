//! [`CacheInfo`]: what a cache of decoded blocks has done.

/// What a cache of decoded blocks (row groups, record batches, unpacked shards) has done in this process, and what it holds.
///
/// Each process has a cache of its own, that of a worker too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheInfo {
    /// How many times a block was decoded as a whole. By blocks, in windows that fit, it is the number of blocks an epoch.
    pub decoded: u64,
    /// How many times only a part of a block was decoded, which is not kept: the pages of a row group that have the samples.
    pub decoded_in_part: u64,
    /// How many times a batch found a block decoded.
    pub found: u64,
    /// How many blocks are kept.
    pub blocks: usize,
    /// The size of these in memory.
    pub bytes: usize,
    /// How many bytes may be kept.
    pub limit: usize,
}
