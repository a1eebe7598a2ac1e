//! The packed shards of MDS as [`Blocks`].

use super::mds::Shards;
use super::mds_index::Packing;
use crate::dataset::{BlockSize, Blocks};

impl Blocks for Shards {
    fn count(&self) -> usize {
        self.shards.len()
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        if let Ok((number, shard, _)) = self.find(index)
            && shard.packing == Packing::Zstd
        {
            visit(number);
        }
    }

    fn size_of(&self, number: usize) -> BlockSize {
        let bytes = usize::try_from(self.shards[number].bytes).unwrap_or(usize::MAX);
        BlockSize { read: bytes, kept: bytes, limit: self.unpacked.limit() }
    }

    fn announce(&self, number: usize) {
        if !self.unpacked.is_here(&number)
            && let Ok(file) = self.pool.file(number)
        {
            file.will_read_all(0, file.bytes());
        }
    }
}
