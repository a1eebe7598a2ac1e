//! [`EpochPlan`]: computes the batches of one rank in one epoch.

use std::sync::Arc;

use super::{EpochBatches, EpochOrder, LastBatch, check_positive};
use crate::error::Result;
use crate::shard::{Remainder, Shard};

/// Determines which samples each batch of a rank contains, from a position of the global order on.
///
/// The ranks read the order together: local batch b of each rank covers the same range of `batch_size * world_size`
/// positions. So one position describes the progress of all ranks, and a plan that starts there may have a different
/// number of ranks and a different batch size. Only the order itself is stored; any batch can be requested at any time,
/// from many threads at once.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{EpochPlan, LastBatch, Remainder, Sampler, SequentialSampler, Shard};
///
/// let order = Arc::from(SequentialSampler::new(10).order(0)?);
/// let plan = EpochPlan::of_samples(order, 2, LastBatch::Keep)?.shard(Shard::new(1, 2)?, Remainder::Exact);
/// let mut indices = Vec::new();
/// assert_eq!(plan.batch(0, &mut indices).valid, 2);
/// assert_eq!(indices, [1, 3]);
///
/// let from_4_on = plan.start_at(4).shard(Shard::new(2, 4)?, Remainder::Exact);
/// assert_eq!(from_4_on.batch(0, &mut indices).valid, 1); // positions 6 and, past the end, 10
/// assert_eq!(indices, [6, 0]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone)]
pub struct EpochPlan {
    source: Source,
    shard: Shard,
    remainder: Remainder,
    start: usize,
    /// Number of positions of this rank from the start on.
    local_len: usize,
}

/// Maximum number of indices that [`peek_indices`](EpochPlan::peek_indices) adds.
const SOME: usize = 8;

#[derive(Clone)]
enum Source {
    Samples { order: Arc<dyn EpochOrder>, batch_size: usize, last_batch: LastBatch },
    Batches(Arc<dyn EpochBatches>),
}

/// A batch of a plan, without its indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBatch {
    /// The position of its first sample in the global order, or, with a [`BatchingSampler`](crate::BatchingSampler),
    /// the position of the batch among all batches.
    pub position: usize,
    /// How many of its samples, counted from the first one, are part of the epoch; the rest are padding
    /// ([`Remainder::Exact`]).
    pub valid: usize,
}

impl EpochPlan {
    /// Returns a plan of batches of `batch_size` samples of `order`, for one rank that reads the whole epoch.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `batch_size` is 0.
    pub fn of_samples(order: Arc<dyn EpochOrder>, batch_size: usize, last_batch: LastBatch) -> Result<Self> {
        check_positive("batch_size", batch_size)?;
        Ok(Self::of(Source::Samples { order, batch_size, last_batch }))
    }

    /// Returns a plan of existing batches, for one rank that reads the whole epoch; positions count batches.
    pub fn of_batches(batches: Arc<dyn EpochBatches>) -> Self {
        Self::of(Source::Batches(batches))
    }

    fn of(source: Source) -> Self {
        EpochPlan { source, shard: Shard::whole(), remainder: Remainder::default(), start: 0, local_len: 0 }.counted()
    }

    /// Returns the part of the same epoch that `shard` owns.
    #[must_use]
    pub fn shard(self, shard: Shard, remainder: Remainder) -> Self {
        EpochPlan { shard, remainder, ..self }.counted()
    }

    /// Returns the rest of the epoch from global position `start` on.
    #[must_use]
    pub fn start_at(self, start: usize) -> Self {
        EpochPlan { start: start.min(self.positions()), ..self }.counted()
    }

    /// Returns the rank that this plan is for.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shard.rank()
    }

    /// Returns the number of ranks that read the epoch together.
    #[must_use]
    pub fn world_size(&self) -> usize {
        self.shard.world_size()
    }

    /// Returns the plan of a different rank for the same steps.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if there is no such rank.
    pub fn of_rank(&self, rank: usize) -> Result<Self> {
        Ok(self.clone().shard(Shard::new(rank, self.world_size())?, self.remainder))
    }

    /// Returns the length of the global order.
    #[must_use]
    pub fn positions(&self) -> usize {
        match &self.source {
            Source::Samples { order, .. } => order.len(),
            Source::Batches(batches) => batches.len(),
        }
    }

    /// Returns the number of batches of this rank, which is the same for every rank.
    #[must_use]
    pub fn len(&self) -> usize {
        let local = self.local_len;
        match &self.source {
            Source::Samples { batch_size, last_batch, .. } => last_batch.batches(local, *batch_size),
            Source::Batches(_) => local,
        }
    }

    /// True if there are no batches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many samples of the epoch all batches contain together, without padding, or None if a
    /// [`BatchingSampler`](crate::BatchingSampler) makes the batches: computing it would require all of them.
    #[cfg(feature = "burn")]
    pub(crate) fn samples(&self) -> Option<usize> {
        let Source::Samples { batch_size, .. } = &self.source else { return None };
        // Only the last batch can be smaller or have padding.
        let Some(last) = self.len().checked_sub(1) else { return Some(0) };
        let in_last = (*batch_size).min(self.local_len - last * batch_size);
        Some(last * batch_size + self.planned(last, in_last).valid)
    }

    /// Returns the position of the ranks in the global order after each has read `batches` batches of this plan, or all
    /// of its batches. Trailing positions that belong to no rank ([`Remainder::Drop`], [`LastBatch::Drop`]) are not
    /// counted as read.
    #[must_use]
    pub fn position_after(&self, batches: usize) -> usize {
        let per_batch = match &self.source {
            Source::Samples { batch_size, .. } => *batch_size,
            Source::Batches(_) => 1,
        };
        // At most what the ranks own: positions that belong to no rank were not read.
        let local = batches.saturating_mul(per_batch).min(self.local_len);
        let positions = local.saturating_mul(self.shard.world_size());
        self.start.saturating_add(positions).min(self.positions())
    }

    /// Replaces the contents of `into` with the indices of `batch`, counted from the start of this plan.
    ///
    /// # Panics
    /// If `batch` is not below [`len`](Self::len).
    pub fn batch(&self, batch: usize, into: &mut Vec<usize>) -> PlannedBatch {
        let len = self.len();
        assert!(batch < len, "batch {batch} of an epoch of {len} batches");
        match &self.source {
            Source::Batches(batches) => batches.indices(self.place(batch).0, into),
            Source::Samples { order, batch_size, .. } => {
                let first = batch * batch_size;
                let count = (*batch_size).min(self.local_len - first);
                into.resize(count, 0);
                // Only the last position of a rank can be past the end, and only that one does not follow the stride.
                let (last, is_past_end) = self.place(first + count - 1);
                let (inside, past) = into.split_at_mut(count - usize::from(is_past_end));
                match self.shard.world_size() {
                    1 => order.indices(self.start + first, inside),
                    _ if inside.is_empty() => {}
                    world_size => order.indices_by(self.place(first).0, world_size, inside),
                }
                past.iter_mut().for_each(|index| *index = order.index_at(last));
            }
        }
        self.planned(batch, into.len())
    }

    /// Adds some indices of `batch`, evenly spread over it, to `into`: enough to see where its samples are stored. Adds
    /// none if there is no such batch, or if all of its indices would have to be computed.
    #[doc(hidden)]
    pub fn peek_indices(&self, batch: usize, into: &mut Vec<usize>) {
        let Source::Samples { order, batch_size, .. } = &self.source else { return };
        if batch < self.len() {
            let first = batch * batch_size;
            let count = (*batch_size).min(self.local_len - first);
            let step = count.div_ceil(SOME).max(1);
            into.extend((0..count).step_by(step).map(|local| order.index_at(self.place(first + local).0)));
        }
    }

    /// Returns what [`batch`](Self::batch) returns for a batch of `samples` samples.
    pub(crate) fn planned(&self, batch: usize, samples: usize) -> PlannedBatch {
        let (first, last, at_the_end) = match &self.source {
            Source::Batches(_) => (batch, batch, samples),
            Source::Samples { batch_size, .. } => (batch * batch_size, batch * batch_size + samples - 1, 1),
        };
        let ((position, _), (_, is_past_end)) = (self.place(first), self.place(last));
        let padding = if is_past_end && self.remainder == Remainder::Exact { at_the_end } else { 0 };
        PlannedBatch { position, valid: samples - padding }
    }

    fn counted(self) -> Self {
        EpochPlan { local_len: self.shard.len_of(self.positions() - self.start, self.remainder), ..self }
    }

    /// Returns the global position of this rank's position `local`, and true if it is past the end of the order. Such a
    /// position is padding, which wraps to the start of the epoch regardless of where this plan starts: resumed ranks
    /// pad like uninterrupted ones.
    fn place(&self, local: usize) -> (usize, bool) {
        let (len, world_size, rank) = (self.positions(), self.shard.world_size(), self.shard.rank());
        let reach = local.checked_mul(world_size).and_then(|reach| reach.checked_add(self.start)?.checked_add(rank));
        match reach {
            Some(place) if place < len => (place, false),
            // The sum may need a 65th bit here.
            _ => {
                let place = self.start as u128 + local as u128 * world_size as u128 + rank as u128;
                ((place % len as u128) as usize, place >= len as u128)
            }
        }
    }
}
