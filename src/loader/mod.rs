//! [`DataLoader`], and [`ItemLoader`] for datasets without fields: they connect a dataset, a sampler, and the pipeline,
//! and contain no logic of their own.

#[cfg(feature = "futures")]
mod batch_stream;
mod batches;
mod builder;
mod debug;
mod epochs;
mod items;
mod items_builder;
mod settings;
mod shuffled_stream;
mod stream_batches;

use std::sync::Arc;

#[cfg(feature = "futures")]
pub use batch_stream::BatchStream;
pub use batches::{BatchIds, Batches, BatchesWithIds};
pub use builder::DataLoaderBuilder;
use epochs::Epochs;
pub use items::ItemLoader;
pub use items_builder::ItemLoaderBuilder;
pub use stream_batches::StreamBatches;

use crate::dataset::shared;
use crate::memory::Slab;
use crate::pipeline::{BytesAhead, Delivery, FetchSamples, Pool, Prefetch};
use crate::{Collate, Dataset, EpochPlan, LoaderState, Result};

/// Batches of a dataset, epoch by epoch. Threads and memory are reused from one epoch to the next.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{DataLoader, InMemory};
///
/// let dataset = Arc::new(InMemory::from_vec("x", (0..10_i64).collect(), [])?);
/// let loader = DataLoader::builder(dataset).batch_size(4).shuffle(7).threads(2).build()?;
/// let mut seen = Vec::new();
/// for batch in loader.epoch(0)? {
///     seen.extend(batch?.to_vec::<i64>(0)?);
/// }
/// seen.sort_unstable();
/// assert_eq!(seen, (0..10).collect::<Vec<_>>());
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct DataLoader {
    dataset: Arc<dyn Dataset>,
    collate: Arc<dyn Collate>,
    epochs: Epochs,
    slab: Arc<Slab>,
    bytes_ahead: Arc<BytesAhead>,
    pool: Option<Arc<Pool>>,
    ahead: usize,
    delivery: Delivery,
    seed: Option<u64>,
    /// The index of the first sample when keys are derived.
    first_index: usize,
}

impl DataLoader {
    /// Returns a builder for a loader of `dataset`, taking ownership (pass an `Arc` to share it). Defaults: one sample
    /// per batch, in the dataset's order, on the calling thread.
    pub fn builder(dataset: impl Dataset + 'static) -> DataLoaderBuilder {
        DataLoaderBuilder::new(shared(dataset))
    }

    /// Returns the batches of `epoch`, from the first on.
    ///
    /// # Errors
    /// Those of the sampler.
    pub fn epoch(&self, epoch: u64) -> Result<Batches<'static>> {
        self.batches_from(self.epochs.start(epoch))
    }

    /// Returns the remaining batches of the epoch in which `state` was saved. The cost is that of creating an epoch's
    /// order; nothing is replayed. The number of threads, the number of ranks, and the batch size may differ: the ranks
    /// together continue at the position that the saved ranks had reached.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) if the state is for a loader with a different dataset length or sampler,
    /// or if it contains batches received out of order and batches are cut or distributed differently here; those of
    /// the sampler.
    pub fn resume(&self, state: &LoaderState) -> Result<Batches<'static>> {
        self.batches_from(self.epochs.adapted(state)?)
    }

    fn batches_from(&self, state: LoaderState) -> Result<Batches<'static>> {
        let plan = self.epochs.plan_from(&state)?;
        let fetch = FetchSamples::new(Arc::clone(&self.dataset), Arc::clone(&self.collate), Arc::clone(&self.slab));
        let fetch = match self.seed {
            Some(seed) => fetch.with_seed(seed).with_first_index(self.first_index),
            None => fetch,
        };
        let window = Prefetch::new(Arc::new(fetch), self.pool.clone(), self.delivery);
        let window = window.with_bytes_ahead(Arc::clone(&self.bytes_ahead));
        Ok(Batches::new(plan, window, (self.ahead, Some(self.bytes_ahead.join())), state))
    }

    /// Returns the counter of bytes fetched ahead for all epochs being read, and the bound on them.
    #[doc(hidden)]
    #[must_use]
    pub fn bytes_ahead(&self) -> &BytesAhead {
        &self.bytes_ahead
    }

    /// Returns this rank's batches of `epoch` without loading them: which samples each of them contains.
    ///
    /// # Errors
    /// Those of the sampler.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let dataset = Arc::new(InMemory::from_vec("x", (0..10_i64).collect(), [])?);
    /// let loader = DataLoader::builder(dataset).batch_size(4).build()?;
    /// let mut indices = Vec::new();
    /// loader.plan(3)?.batch(2, &mut indices);
    /// assert_eq!(indices, [8, 9]);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn plan(&self, epoch: u64) -> Result<EpochPlan> {
        self.epochs.plan(epoch)
    }
}
