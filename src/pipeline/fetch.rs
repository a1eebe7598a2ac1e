//! [`Fetch`]: one index batch in, one filled slot out.

use std::sync::Arc;

use super::Batch;
use crate::collate::Collate;
use crate::dataset::{Dataset, read_batch};
use crate::memory::Slab;
use crate::{BatchWriter, Result};

/// The samples of one batch, by index, and the place of the batch in its epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexBatch {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The place of this batch among the batches of the epoch, counted from 0.
    pub batch_in_epoch: u64,
    /// The indices of its samples, in batch order.
    pub indices: Vec<usize>,
}

/// Who fetches.
///
/// # Contract
/// Called from many threads at once. Pure: the same [`IndexBatch`] gives the same batch, so one that was lost with a
/// forked-away thread can be fetched again. A panic is caught and becomes [`Error::Panic`](crate::Error::Panic).
pub trait Fetch: Send + Sync {
    /// Fetches one batch.
    ///
    /// # Errors
    /// Whatever went wrong while a sample was read; the batches before and after it are not touched by that.
    fn fetch(&self, batch: &IndexBatch) -> Result<Batch>;
}

/// Fetches from a [`Dataset`]: every sample is read straight into its row of the slot.
pub struct FetchSamples {
    dataset: Arc<dyn Dataset>,
    collate: Arc<dyn Collate>,
    slab: Arc<Slab>,
}

impl FetchSamples {
    /// Fetches samples of `dataset`, laid out by `collate`, into slots of `slab`.
    pub fn new(dataset: Arc<dyn Dataset>, collate: Arc<dyn Collate>, slab: Arc<Slab>) -> Self {
        Self { dataset, collate, slab }
    }
}

impl Fetch for FetchSamples {
    fn fetch(&self, batch: &IndexBatch) -> Result<Batch> {
        let layout = self.collate.layout(self.dataset.schema(), batch.indices.len())?;
        let mut lease = self.slab.lease(layout.bytes)?;
        let mut into = BatchWriter::new(lease.bytes_mut(), &layout.columns, layout.samples);
        read_batch(&*self.dataset, &batch.indices, &mut into)?;
        Ok(Batch::new(layout, lease))
    }
}
