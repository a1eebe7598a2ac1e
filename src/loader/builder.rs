//! [`DataLoaderBuilder`]: how a loader is to be made.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::DataLoader;
use super::epochs::{EpochSettings, check_prefetch};
use crate::memory::Slab;
use crate::{
    BatchingSampler, BytesAhead, Collate, Dataset, Delivery, Error, LastBatch, Pool, RandomSampler, Remainder, Result,
    Sampler, Shard, StackSamples,
};

/// Slots kept for reuse beyond those that are being filled: the batch in use and what a consumer looks ahead.
const SPARE_SLOTS: usize = 4;

/// How a [`DataLoader`] is to be made.
#[must_use]
pub struct DataLoaderBuilder {
    dataset: Arc<dyn Dataset>,
    collate: Arc<dyn Collate>,
    epochs: EpochSettings,
    threads: usize,
    pool: Option<Arc<rayon::ThreadPool>>,
    prefetch: usize,
    prefetch_bytes: Option<NonZeroUsize>,
    delivery: Delivery,
    seed: Option<u64>,
}

impl DataLoaderBuilder {
    pub(super) fn new(dataset: Arc<dyn Dataset>) -> Self {
        DataLoaderBuilder {
            dataset,
            collate: Arc::new(StackSamples),
            epochs: EpochSettings::default(),
            threads: 0,
            pool: None,
            prefetch: 2,
            prefetch_bytes: None,
            delivery: Delivery::InOrder,
            seed: None,
        }
    }

    /// Samples per batch. Default 1.
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.epochs.batch_size = Some(batch_size);
        self
    }

    /// The order of the samples. Default: the dataset's.
    pub fn sampler(mut self, sampler: Arc<dyn Sampler>) -> Self {
        self.epochs.sampler = Some(sampler);
        self
    }

    /// Another random order every epoch, a pure function of `seed` and the epoch's number. It is the seed of what is random
    /// about samples, too, unless [`seed`](Self::seed) gives another.
    pub fn shuffle(mut self, seed: u64) -> Self {
        let sampler = RandomSampler::new(self.dataset.len(), seed);
        self.seed = self.seed.or(Some(seed));
        self.sampler(Arc::new(sampler))
    }

    /// What is random about samples is drawn from: each has a key that follows from this, the epoch and its index
    /// ([`SampleWriter::key`](crate::SampleWriter::key)), so it is the same for any number of threads, and after a resume.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// What becomes of a last batch that is smaller. Default: it comes.
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.epochs.last_batch = Some(last_batch);
        self
    }

    /// What makes the batches, in the place of a sampler and a batch size: torch's `batch_sampler`.
    pub fn batches(mut self, batches: Arc<dyn BatchingSampler>) -> Self {
        self.epochs.batches = Some(batches);
        self
    }

    /// Which part of every epoch is this process's, and what happens to a remainder. Every rank gets as many batches as any
    /// other, and of the same sizes; with [`batches`](Self::batches) whole batches are dealt. Default: all of it.
    ///
    /// Every rank needs the same sampler, seed and all, and none that is a shard already.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{DataLoader, InMemory, Remainder, Shard};
    ///
    /// let dataset = Arc::new(InMemory::from_vec("x", (0..10_i64).collect(), [])?);
    /// let mut counted = 0;
    /// for rank in 0..4 {
    ///     let builder = DataLoader::builder(dataset.clone()).batch_size(2).shuffle(7);
    ///     let loader = builder.shard(Shard::new(rank, 4)?, Remainder::Exact).build()?;
    ///     for batch in loader.epoch(0)?.with_ids() {
    ///         counted += batch?.1.valid; // without what only fills up the ranks' last batches
    ///     }
    /// }
    /// assert_eq!(counted, 10);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn shard(mut self, shard: Shard, remainder: Remainder) -> Self {
        (self.epochs.shard, self.epochs.remainder) = (shard, remainder);
        self
    }

    /// Threads that fetch ahead of the consumer. Default 0: batches are fetched when they are asked for.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The threads of `pool` fetch ahead of the consumer, in the place of [`threads`](Self::threads) of the loader's own; they
    /// may have other work beside it. A consumer that is one of them itself does what it would wait for; it takes the batches
    /// in one job then: between two jobs the pool may put the second on top of a fetch that the second waits for.
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

    /// Batches fetched ahead per thread. Default 2.
    pub fn prefetch(mut self, batches_per_thread: usize) -> Self {
        self.prefetch = batches_per_thread;
        self
    }

    /// The most bytes that batches fetched ahead take, beside [`prefetch`](Self::prefetch): whichever is reached first counts.
    /// The largest batch so far says how many that are; one is always fetched, and until it has come it is alone. Which
    /// batches come, and in which order, does not depend on it. Default: a quarter of what the process [may
    /// use](crate::memory::container_bytes), from the first batch on.
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
    /// [`Error::InvalidArgument`] when `batch_size` is 0, when `batches` are given and what they decide is given too, when
    /// both `threads` and `pool` are given, when there are threads but nothing to prefetch, or when samples are random and
    /// there is no seed.
    pub fn build(self) -> Result<DataLoader> {
        if self.pool.is_some() && self.threads > 0 {
            let reason = "its threads fetch, and threads is given too: leave one of them out".into();
            return Err(Error::InvalidArgument { argument: "pool", reason });
        }
        let threads = self.pool.as_ref().map_or(self.threads, |pool| pool.current_num_threads());
        check_prefetch(threads, self.prefetch)?;
        if self.dataset.is_random() && self.seed.is_none() {
            let reason = "the samples are random, and nothing says what they are drawn from: give a number".into();
            return Err(Error::InvalidArgument { argument: "seed", reason });
        }
        let epochs = self.epochs.build(self.dataset.len())?;
        let ahead = threads.saturating_mul(self.prefetch).max(1);
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
            delivery: self.delivery,
            seed: self.seed,
        })
    }
}
