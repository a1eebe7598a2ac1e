//! [`Shard`]: which positions of an epoch belong to one rank.

use crate::error::{Error, Result};

/// The part of every epoch that training process `rank` of `world_size` owns.
///
/// Position p of the global order belongs to rank p % `world_size`, as in torch's `DistributedSampler`, so the ranks
/// together read the order from front to back. It is computed: nothing is stored and nothing is sent between ranks.
///
/// # Example
/// ```
/// use sluicegate::{Remainder, Shard};
///
/// let shard = Shard::new(1, 4)?;
/// assert_eq!(shard.len_of(10, Remainder::Drop), 2);
/// assert_eq!(shard.len_of(10, Remainder::Exact), 3);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    rank: usize,
    world_size: usize,
}

/// How to treat the end of an epoch whose length is not a multiple of the number of ranks. Every rank gets the same
/// number of positions in any case: a rank with one batch less would leave the others waiting forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Remainder {
    /// The order restarts from its first position until every rank has the same number.
    #[default]
    Pad,
    /// The last positions belong to no rank.
    Drop,
    /// Like [`Remainder::Pad`], but added positions are marked: for evaluation, where each sample must count once.
    Exact,
}

/// A position of the global order, as seen by a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardPosition {
    /// This rank reads the position as part of the epoch.
    Own(usize),
    /// This rank reads the position only to have as many as the other ranks ([`Remainder::Exact`]).
    Padding(usize),
}

impl ShardPosition {
    /// Returns the position in the global order, for either variant.
    pub fn position(self) -> usize {
        match self {
            ShardPosition::Own(position) | ShardPosition::Padding(position) => position,
        }
    }
}

impl Shard {
    /// Returns the shard of `rank` among `world_size` ranks.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `rank` is not below `world_size`.
    pub fn new(rank: usize, world_size: usize) -> Result<Self> {
        if rank >= world_size {
            return Err(Error::invalid(
                "shard",
                format!(
                    "rank {rank} does not exist in a world of {world_size}; pass (rank, world_size) with 0 <= rank < \
                     world_size"
                ),
            ));
        }
        Ok(Shard { rank, world_size })
    }

    /// Returns the whole epoch: the only shard of a world of one.
    pub const fn whole() -> Self {
        Shard { rank: 0, world_size: 1 }
    }

    /// Returns the number of this training process, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of training processes, at least 1.
    pub fn world_size(&self) -> usize {
        self.world_size
    }

    /// Returns how many positions of an epoch of `len` this rank owns, including padding: the same number for every
    /// rank.
    pub fn len_of(&self, len: usize, remainder: Remainder) -> usize {
        match remainder {
            Remainder::Drop => len / self.world_size,
            Remainder::Pad | Remainder::Exact => len.div_ceil(self.world_size),
        }
    }

    /// Returns the position in the global order of this rank's position `local`; `None` from [`len_of`](Self::len_of)
    /// on.
    ///
    /// In a world larger than `len`, padding wraps around more than once.
    ///
    /// # Example
    /// ```
    /// use sluicegate::internal::ShardPosition;
    /// use sluicegate::{Remainder, Shard};
    ///
    /// let shard = Shard::new(1, 4)?;
    /// assert_eq!(shard.position_at(1, 10, Remainder::Exact), Some(ShardPosition::Own(5)));
    /// assert_eq!(shard.position_at(2, 10, Remainder::Exact), Some(ShardPosition::Own(9)));
    /// assert_eq!(shard.position_at(3, 10, Remainder::Exact), None);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    #[doc(hidden)]
    pub fn position_at(&self, local: usize, len: usize, remainder: Remainder) -> Option<ShardPosition> {
        if local >= self.len_of(len, remainder) {
            return None;
        }
        // Only the last position of a rank can be past the end, and only there the sum may need a 65th bit.
        let position = local as u128 * self.world_size as u128 + self.rank as u128;
        if position < len as u128 {
            return Some(ShardPosition::Own(position as usize));
        }
        let wrapped = (position % len as u128) as usize;
        Some(match remainder {
            Remainder::Exact => ShardPosition::Padding(wrapped),
            Remainder::Pad | Remainder::Drop => ShardPosition::Own(wrapped),
        })
    }
}
