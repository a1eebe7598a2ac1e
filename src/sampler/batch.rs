//! [`BatchSampler`]: the order of an epoch, cut into batches.

use std::ops::Range;
use std::sync::Arc;

use super::{BatchingSampler, EpochBatches, EpochOrder, Sampler, check_positive};
use crate::error::Result;

/// Cuts the order of a sampler into batches of `batch_size`: torch's `BatchSampler`.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{BatchSampler, EpochBatches, LastBatch, SequentialSampler};
///
/// let batches = BatchSampler::new(Arc::new(SequentialSampler::new(10)), 4, LastBatch::Keep)?.order(0)?;
/// assert_eq!(batches.len(), 3);
/// let mut indices = Vec::new();
/// batches.indices(2, &mut indices);
/// assert_eq!(indices, [8, 9]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone)]
pub struct BatchSampler {
    sampler: Arc<dyn Sampler>,
    batch_size: usize,
    last_batch: LastBatch,
}

/// How to treat a last batch that is not full: torch's `drop_last`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LastBatch {
    /// Yield it, smaller than the others.
    #[default]
    Keep,
    /// Drop it; its samples are not read in this epoch.
    Drop,
}

impl LastBatch {
    /// Returns the number of batches of `size` in an epoch of `len`.
    pub(crate) fn batches(self, len: usize, size: usize) -> usize {
        match self {
            LastBatch::Keep => len.div_ceil(size),
            LastBatch::Drop => len / size,
        }
    }
}

impl BatchSampler {
    /// Returns batches of `batch_size` samples each, in the order of `sampler`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `batch_size` is 0, with torch's message.
    pub fn new(sampler: Arc<dyn Sampler>, batch_size: usize, last_batch: LastBatch) -> Result<Self> {
        check_positive("batch_size", batch_size)?;
        Ok(BatchSampler { sampler, batch_size, last_batch })
    }

    /// Returns the number of samples in a full batch.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Returns the batches of `epoch`; the contract is that of [`Sampler::order`].
    ///
    /// # Errors
    /// Those of the sampler.
    #[doc(hidden)]
    pub fn order(&self, epoch: u64) -> Result<BatchOrder> {
        Ok(BatchOrder { order: self.sampler.order(epoch)?, batch_size: self.batch_size, last_batch: self.last_batch })
    }
}

/// The batches of one epoch. Any of them can be requested at any time, from many threads at once.
pub struct BatchOrder {
    order: Box<dyn EpochOrder>,
    batch_size: usize,
    last_batch: LastBatch,
}

impl BatchOrder {
    /// Returns the order that the batches are cut from; with [`LastBatch::Drop`] it may be longer than all batches
    /// together.
    pub fn order(&self) -> &dyn EpochOrder {
        &*self.order
    }

    /// Returns the positions of the epoch that `batch_in_epoch` covers.
    ///
    /// # Panics
    /// If `batch_in_epoch` is not below [`len`](EpochBatches::len).
    pub fn positions(&self, batch_in_epoch: usize) -> Range<usize> {
        let len = self.len();
        assert!(batch_in_epoch < len, "batch {batch_in_epoch} of an epoch of {len} batches");
        let start = batch_in_epoch * self.batch_size;
        start..start.saturating_add(self.batch_size).min(self.order.len())
    }
}

impl EpochBatches for BatchOrder {
    fn len(&self) -> usize {
        self.last_batch.batches(self.order.len(), self.batch_size)
    }

    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>) {
        let positions = self.positions(batch_in_epoch);
        into.resize(positions.len(), 0);
        self.order.indices(positions.start, into);
    }
}

impl BatchingSampler for BatchSampler {
    fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>> {
        Ok(Box::new(self.order(epoch)?))
    }

    fn identity(&self) -> String {
        let (sampler, batch_size) = (self.sampler.identity(), self.batch_size);
        format!("BatchSampler({sampler}, batch_size={batch_size}, last_batch={:?})", self.last_batch)
    }
}
