//! [`CacheInfo`]: counters of a cache of decoded blocks.

/// Counters and contents of a cache of decoded blocks (row groups, record batches, unpacked shards) in this process.
///
/// Each process has its own cache, and so does each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheInfo {
    /// How many blocks were decoded as a whole: each one once per epoch if blocks are read in windows that fit.
    pub decoded: u64,
    /// How many blocks were decoded only in part (the pages of a row group with the samples), which is not cached.
    pub decoded_in_part: u64,
    /// How many times a batch found a block in the cache.
    pub found: u64,
    /// The number of cached blocks.
    pub blocks: usize,
    /// The size of the cached blocks, in bytes.
    pub bytes: usize,
    /// The cache size limit, in bytes.
    pub limit: usize,
}
