//! [`DataLoader`], and [`ItemLoader`] for datasets without fields: they wire a dataset, a sampler and the pipeline, and decide
//! nothing.

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
use crate::{BytesAhead, Collate, Dataset, Delivery, EpochPlan, FetchSamples, LoaderState, Pool, Prefetch, Result};

/// Batches of a dataset, epoch by epoch. Threads and memory are kept from one epoch to the next.
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
    /// The index that the first sample has where keys are made.
    first_index: usize,
}

impl DataLoader {
    /// A loader of `dataset`, which it takes (give it an `Arc` to share one): one sample a batch, in the dataset's order, on
    /// the calling thread, until told otherwise.
    pub fn builder(dataset: impl Dataset + 'static) -> DataLoaderBuilder {
        DataLoaderBuilder::new(shared(dataset))
    }

    /// The batches of `epoch`, from the first on.
    ///
    /// # Errors
    /// Those of the sampler.
    pub fn epoch(&self, epoch: u64) -> Result<Batches<'static>> {
        self.batches_from(self.epochs.start(epoch))
    }

    /// The batches that are left of the epoch that `state` was saved in. Costs what the order of an epoch costs, and no
    /// replay. Any number of threads and of ranks, and batches of any size: the ranks together go on at the position where
    /// those that were saved have been.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) when the state is of a loader with another dataset length or another sampler,
    /// or when it has batches that came out of turn and batches are cut or dealt otherwise here; those of the sampler.
    pub fn resume(&self, state: &LoaderState) -> Result<Batches<'static>> {
        self.batches_from(self.epochs.go_on(state)?)
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

    /// What is fetched ahead for all epochs that are read, in bytes, and the bound on it.
    #[must_use]
    pub fn bytes_ahead(&self) -> &BytesAhead {
        &self.bytes_ahead
    }

    /// All batches of `epoch` that are this rank's, without loading any: which samples each of them holds.
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
