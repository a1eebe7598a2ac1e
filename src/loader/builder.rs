//! [`DataLoaderBuilder`]: configures a loader.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::DataLoader;
use super::settings::{Settings, setters};
use crate::memory::Slab;
use crate::pipeline::{BytesAhead, Pool};
use crate::{Collate, Dataset, Error, Result, StackSamples};

/// Slots kept for reuse in addition to those being filled: the batch in use, and those that the consumer looks ahead.
const SPARE_SLOTS: usize = 4;

/// Configures a [`DataLoader`].
///
/// # Example
/// ```
/// use sluicegate::{DataLoader, InMemory, LastBatch, Remainder, Shard};
///
/// let numbers = InMemory::from_vec("number", (0..100_i64).collect(), [])?;
/// let builder = DataLoader::builder(numbers).batch_size(8).last_batch(LastBatch::Drop);
/// let loader = builder.shuffle(7).shard(Shard::new(0, 2)?, Remainder::Pad).threads(2).build()?;
/// assert_eq!(loader.epoch(0)?.len(), 6); // this rank has 50 of the samples
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[must_use]
pub struct DataLoaderBuilder {
    dataset: Arc<dyn Dataset>,
    collate: Arc<dyn Collate>,
    settings: Settings,
    threads: usize,
    pool: Option<Arc<rayon::ThreadPool>>,
    prefetch_bytes: Option<NonZeroUsize>,
}

impl DataLoaderBuilder {
    pub(super) fn new(dataset: Arc<dyn Dataset>) -> Self {
        DataLoaderBuilder {
            dataset,
            collate: Arc::new(StackSamples),
            settings: Settings::default(),
            threads: 0,
            pool: None,
            prefetch_bytes: None,
        }
    }

    setters!();

    fn dataset_len(&self) -> usize {
        self.dataset.len()
    }

    /// Sets the number of threads that fetch ahead of the consumer. Default 0: batches are fetched when they are
    /// requested.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Fetches ahead on the threads of `pool` instead of the loader's own [`threads`](Self::threads); they may also do
    /// other work. A consumer that runs on one of these threads does the work that it would wait for. It should take
    /// all batches in one job: between two jobs, the pool may run the second one on top of a fetch that the second one
    /// waits for.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads"));
    /// let dataset = InMemory::from_vec("x", (0..10_i64).collect(), [])?;
    /// let loader = DataLoader::builder(dataset).batch_size(4).pool(Arc::clone(&pool)).build()?;
    /// assert_eq!(loader.epoch(0)?.count(), 3);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn pool(mut self, pool: Arc<rayon::ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Limits the bytes of batches fetched ahead, in addition to [`prefetch`](Self::prefetch): the limit that is
    /// reached first applies. The number of batches follows from the largest one so far. One batch is always fetched,
    /// and no other until it has arrived. The batches and their order do not depend on this limit. Default: a quarter
    /// of the memory that the process [may use](crate::memory::container_bytes), from the first batch on.
    ///
    /// # Example
    /// ```
    /// use std::num::NonZeroUsize;
    /// use std::sync::Arc;
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let dataset = Arc::new(InMemory::from_vec("x", vec![0.5_f32; 1 << 16], [])?);
    /// let builder = DataLoader::builder(dataset).batch_size(1024).threads(2).prefetch(8);
    /// let loader = builder.prefetch_bytes(NonZeroUsize::new(10_000).expect("more than none")).build()?;
    /// assert_eq!(loader.epoch(0)?.count(), 64);
    /// assert!(loader.bytes_ahead().high_water() <= 10_000);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn prefetch_bytes(mut self, bytes: NonZeroUsize) -> Self {
        self.prefetch_bytes = Some(bytes);
        self
    }

    /// Sets how samples become a batch. Default: [`StackSamples`].
    pub fn collate(mut self, collate: Arc<dyn Collate>) -> Self {
        self.collate = collate;
        self
    }

    /// Returns the loader. Starts nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `batch_size` is 0, if both `batches` and a setting that they determine are given,
    /// if both `threads` and `pool` are given, if there are threads but nothing to prefetch, or if samples are random
    /// and there is no seed.
    pub fn build(self) -> Result<DataLoader> {
        if self.pool.is_some() && self.threads > 0 {
            let reason = "it brings its own threads, so threads can't be passed, too; pass one of the two";
            return Err(Error::invalid("pool", reason));
        }
        let threads = self.pool.as_ref().map_or(self.threads, |pool| pool.current_num_threads());
        let ahead = self.settings.ahead(threads)?;
        self.settings.check_seed(self.dataset.is_random())?;
        let seed = self.settings.sample_seed();
        let Settings { epochs, delivery, first_index, .. } = self.settings;
        let epochs = epochs.build(self.dataset.len())?;
        let bytes_ahead = Arc::new(BytesAhead::new(self.prefetch_bytes));
        let slab = Slab::new(ahead.saturating_add(SPARE_SLOTS));
        let slab = if threads > 0 { slab.with_free_bytes(bytes_ahead.bound()) } else { slab };
        let pool = match self.pool {
            Some(pool) => Some(Pool::of(pool)),
            None => (threads > 0).then(|| Pool::new(threads)),
        };
        Ok(DataLoader {
            dataset: self.dataset,
            collate: self.collate,
            epochs,
            slab: Arc::new(slab),
            bytes_ahead,
            pool: pool.map(Arc::new),
            ahead,
            delivery,
            seed,
            first_index,
        })
    }
}
