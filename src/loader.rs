//! [`DataLoader`]: wires a dataset, a sampler and the pipeline, and decides nothing.

use std::iter::FusedIterator;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::Slab;
use crate::state::Fingerprint;
use crate::{
    Batch, BatchOrder, BatchSampler, Collate, Dataset, Delivery, EpochBatches, Error, FetchSamples, IndexBatch,
    LastBatch, LoaderState, Pool, Prefetch, RandomSampler, Result, Sampler, SequentialSampler, StackSamples,
};

/// Slots kept for reuse beyond those that are being filled: the batch in use and what a consumer looks ahead.
const SPARE_SLOTS: usize = 4;

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
    batches: BatchSampler,
    fingerprint: Fingerprint,
    slab: Arc<Slab>,
    pool: Option<Arc<Pool>>,
    ahead: usize,
    delivery: Delivery,
}

impl DataLoader {
    /// A loader of `dataset`: one sample a batch, in the dataset's order, on the calling thread, until told otherwise.
    pub fn builder(dataset: Arc<dyn Dataset>) -> DataLoaderBuilder {
        DataLoaderBuilder {
            sampler: Arc::new(SequentialSampler::new(dataset.len())),
            dataset,
            collate: Arc::new(StackSamples),
            batch_size: 1,
            last_batch: LastBatch::Keep,
            threads: 0,
            prefetch: 2,
            delivery: Delivery::InOrder,
        }
    }

    /// The batches of `epoch`, from the first on.
    ///
    /// # Errors
    /// Those of the sampler.
    pub fn epoch(&self, epoch: u64) -> Result<Batches> {
        self.resume(&LoaderState::start(epoch, self.fingerprint))
    }

    /// The batches that are left of the epoch that `state` was saved in. Costs what the order of an epoch costs, and no
    /// replay; any number of threads.
    ///
    /// # Errors
    /// [`Error::State`] when the state is of a loader with another dataset length or batch size; those of the sampler.
    pub fn resume(&self, state: &LoaderState) -> Result<Batches> {
        state.check(self.fingerprint)?;
        let fetch = FetchSamples::new(Arc::clone(&self.dataset), Arc::clone(&self.collate), Arc::clone(&self.slab));
        Ok(Batches {
            order: self.batches.order(state.epoch())?,
            window: Prefetch::new(Arc::new(fetch), self.pool.clone(), self.delivery),
            ahead: self.ahead,
            next: state.first_missing(),
            state: state.clone(),
        })
    }
}

/// How a [`DataLoader`] is to be made.
#[must_use]
pub struct DataLoaderBuilder {
    dataset: Arc<dyn Dataset>,
    collate: Arc<dyn Collate>,
    sampler: Arc<dyn Sampler>,
    batch_size: usize,
    last_batch: LastBatch,
    threads: usize,
    prefetch: usize,
    delivery: Delivery,
}

impl DataLoaderBuilder {
    /// Samples per batch. Default 1.
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.batch_size = batch_size;
        self
    }

    /// The order of the samples. Default: the dataset's.
    pub fn sampler(mut self, sampler: Arc<dyn Sampler>) -> Self {
        self.sampler = sampler;
        self
    }

    /// Another random order every epoch, a pure function of `seed` and the epoch's number.
    pub fn shuffle(self, seed: u64) -> Self {
        let sampler = RandomSampler::new(self.dataset.len(), seed);
        self.sampler(Arc::new(sampler))
    }

    /// What becomes of a last batch that is smaller. Default: it comes.
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.last_batch = last_batch;
        self
    }

    /// Threads that fetch ahead of the consumer. Default 0: batches are fetched when they are asked for.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Batches fetched ahead per thread. Default 2.
    pub fn prefetch(mut self, batches_per_thread: usize) -> Self {
        self.prefetch = batches_per_thread;
        self
    }

    /// In which order batches reach the consumer. Default: the sampler's.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// How samples become a batch. Default: [`StackSamples`].
    pub fn collate(mut self, collate: Arc<dyn Collate>) -> Self {
        self.collate = collate;
        self
    }

    /// The loader. Starts nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `batch_size` is 0, or there are threads but nothing to prefetch.
    pub fn build(self) -> Result<DataLoader> {
        if self.threads > 0 && self.prefetch == 0 {
            let reason = "threads that may fetch no batch ahead have nothing to do: give at least 1".into();
            return Err(Error::InvalidArgument { argument: "prefetch", reason });
        }
        let ahead = self.threads.saturating_mul(self.prefetch).max(1);
        Ok(DataLoader {
            fingerprint: Fingerprint {
                dataset_len: self.dataset.len(),
                batch_size: self.batch_size,
                last_batch: self.last_batch,
            },
            dataset: self.dataset,
            collate: self.collate,
            batches: BatchSampler::new(self.sampler, self.batch_size, self.last_batch)?,
            slab: Arc::new(Slab::new(ahead.saturating_add(SPARE_SLOTS))),
            pool: (self.threads > 0).then(|| Arc::new(Pool::new(self.threads))),
            ahead,
            delivery: self.delivery,
        })
    }
}

/// The batches of one epoch. A batch that could not be fetched is an error in its place, and the next one follows.
pub struct Batches {
    order: BatchOrder,
    window: Prefetch,
    ahead: usize,
    /// The next batch to ask for.
    next: u64,
    state: LoaderState,
}

impl Batches {
    /// Where the consumer is now.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }

    fn ask(&mut self) -> Result<()> {
        while self.window.len() < self.ahead && self.next < self.order.len() as u64 {
            if !self.state.has_received(self.next) {
                let mut indices = Vec::new();
                self.order.indices(self.next as usize, &mut indices);
                let batch = IndexBatch { epoch: self.state.epoch(), batch_in_epoch: self.next, indices };
                self.window.push(batch)?;
            }
            self.next += 1;
        }
        Ok(())
    }
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.ask() {
            // Without threads no later batch can be asked for either: the epoch ends here, and its state stays good.
            self.next = self.order.len() as u64;
            return Some(Err(error));
        }
        while !self.window.is_empty() {
            if let Some((asked, batch)) = self.window.pop(Duration::from_secs(60)) {
                self.state.receive(asked.batch_in_epoch);
                return Some(batch);
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.order.len().saturating_sub(self.state.batches_received() as usize);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches {}
impl FusedIterator for Batches {}
