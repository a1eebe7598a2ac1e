//! [`DistributedSampler`]: the part of an order that one rank reads.

use std::sync::Arc;

use super::{EpochOrder, Sampler};
use crate::error::Result;
use crate::shard::{Remainder, Shard};

/// The part of a sampler's order that one rank reads: torch's `DistributedSampler`, for any sampler.
///
/// Every rank needs the same sampler, including the seed. All ranks together read the order from front to back, and
/// each reads the same number of positions ([`Shard`]); a position costs what it costs in the order. With
/// [`Remainder::Exact`] the padding is read too, but this sampler cannot identify it; ask the shard.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{DistributedSampler, Remainder, Sampler, SequentialSampler, Shard};
///
/// let all = Arc::new(SequentialSampler::new(10));
/// let order = DistributedSampler::new(all, Shard::new(1, 4)?, Remainder::Pad).order(0)?;
/// assert_eq!((0..order.len()).map(|position| order.index_at(position)).collect::<Vec<_>>(), [1, 5, 9]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone)]
pub struct DistributedSampler {
    sampler: Arc<dyn Sampler>,
    shard: Shard,
    remainder: Remainder,
}

impl DistributedSampler {
    /// Returns the part of each order of `sampler` that belongs to `shard`.
    pub fn new(sampler: Arc<dyn Sampler>, shard: Shard, remainder: Remainder) -> Self {
        DistributedSampler { sampler, shard, remainder }
    }
}

impl Sampler for DistributedSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        let order = self.sampler.order(epoch)?;
        let len = self.shard.len_of(order.len(), self.remainder);
        Ok(Box::new(ShardOrder { order, shard: self.shard, remainder: self.remainder, len }))
    }

    fn identity(&self) -> String {
        let (sampler, rank, world_size) = (self.sampler.identity(), self.shard.rank(), self.shard.world_size());
        format!("DistributedSampler({sampler}, rank={rank}, world_size={world_size}, remainder={:?})", self.remainder)
    }
}

struct ShardOrder {
    order: Box<dyn EpochOrder>,
    shard: Shard,
    remainder: Remainder,
    len: usize,
}

impl ShardOrder {
    fn position_at(&self, local: usize) -> usize {
        match self.shard.position_at(local, self.order.len(), self.remainder) {
            Some(place) => place.position(),
            None => panic!("position {local} of a shard of {} indices", self.len),
        }
    }
}

impl EpochOrder for ShardOrder {
    fn len(&self) -> usize {
        self.len
    }

    fn index_at(&self, position: usize) -> usize {
        self.order.index_at(self.position_at(position))
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        // Only the last position of a shard can be padding, whose place in the order does not follow the stride.
        let Some((last_index, before)) = into.split_last_mut() else { return };
        if !before.is_empty() {
            self.order.indices_by(self.position_at(start), step * self.shard.world_size(), before);
        }
        *last_index = self.index_at(start + before.len() * step);
    }
}
