//! The positions of MDS samples: the compressed shards as [`Blocks`], and a description of where a sample is.

use super::dataset::Shards;
use super::index::{Packing, Shard};
use crate::dataset::format::field::decoding::Decode;
use crate::dataset::{BlockSize, Blocks};
use crate::{Error, Result};

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
        if !self.unpacked.has(&number)
            && let Ok(file) = self.pool.file(number)
        {
            file.will_read_all(0, file.bytes());
        }
    }
}

impl Shards {
    /// Returns the shard that contains sample `index`: its number, the shard, and the sample's number in it.
    pub(super) fn find(&self, index: usize) -> Result<(usize, &Shard, usize)> {
        let number = self.ends.partition_point(|&end| end <= index);
        let shard = self.shards.get(number).ok_or(Error::IndexOutOfRange { index, len: self.len() })?;
        Ok((number, shard, index - if number == 0 { 0 } else { self.ends[number - 1] }))
    }

    /// As [`Dataset::origin`](crate::Dataset::origin).
    pub(super) fn place_of(&self, index: usize) -> Option<String> {
        let (_, shard, within) = self.find(index).ok()?;
        Some(format!("{}, sample {within}", shard.path.display()))
    }
}
