//! [`ItemLoaderBuilder`]: how a loader of items is to be made.

use std::sync::Arc;
use std::thread::Scope;

use rayon::ThreadPool;

use super::ItemLoader;
use super::epochs::{EpochSettings, check_prefetch};
use crate::pipeline::{FetchItems, ScopedThreads, Spawn};
use crate::{
    BatchingSampler, Delivery, Error, Fetch, ItemDataset, LastBatch, Pool, RandomSampler, Remainder, Result, Sampler,
    Shard,
};

/// How an [`ItemLoader`] is to be made.
#[must_use]
pub struct ItemLoaderBuilder<'scope, B> {
    fetch: Arc<dyn Fetch<B> + 'scope>,
    dataset_len: usize,
    epochs: EpochSettings,
    /// By the setting that gave them: how many there are, and who they are.
    threads: Vec<(&'static str, usize, Arc<dyn Spawn<'scope> + 'scope>)>,
    prefetch: usize,
    delivery: Delivery,
}

impl<'scope, B: Send + 'scope> ItemLoaderBuilder<'scope, B> {
    pub(super) fn new<D, C>(dataset: D, collate: C) -> Self
    where
        D: ItemDataset + 'scope,
        C: Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'scope,
    {
        let dataset_len = dataset.len();
        let fetch = Arc::new(FetchItems::new(dataset, collate));
        let epochs = EpochSettings::default();
        Self { fetch, dataset_len, epochs, threads: Vec::new(), prefetch: 2, delivery: Delivery::InOrder }
    }

    /// Items per batch. Default 1.
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.epochs.batch_size = Some(batch_size);
        self
    }

    /// The order of the items. Default: the dataset's.
    pub fn sampler(mut self, sampler: Arc<dyn Sampler>) -> Self {
        self.epochs.sampler = Some(sampler);
        self
    }

    /// Another random order every epoch, a pure function of `seed` and the epoch's number: that of
    /// [`DataLoaderBuilder::shuffle`](crate::DataLoaderBuilder::shuffle).
    pub fn shuffle(self, seed: u64) -> Self {
        let sampler = RandomSampler::new(self.dataset_len, seed);
        self.sampler(Arc::new(sampler))
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

    /// Which part of every epoch is this process's, and what happens to a remainder: as
    /// [`DataLoaderBuilder::shard`](crate::DataLoaderBuilder::shard). Default: all of it.
    pub fn shard(mut self, shard: Shard, remainder: Remainder) -> Self {
        (self.epochs.shard, self.epochs.remainder) = (shard, remainder);
        self
    }

    /// Threads of `scope` that fetch ahead of the consumer, for what borrows from outside it. They start when there is something
    /// to fetch, and end with the loader and its batches; `threads = 0` is none.
    pub fn scoped_threads<'env>(self, scope: &'scope Scope<'scope, 'env>, threads: usize) -> Self {
        self.fetched_by("scoped_threads", threads, || Arc::new(ScopedThreads::new(scope, threads)))
    }

    fn fetched_by(
        mut self,
        setting: &'static str,
        threads: usize,
        make: impl FnOnce() -> Arc<dyn Spawn<'scope> + 'scope>,
    ) -> Self {
        self.threads.retain(|(other, ..)| *other != setting);
        if threads > 0 {
            self.threads.push((setting, threads, make()));
        }
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

    /// The loader. Starts nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when `batch_size` is 0, when `batches` are given and what they
    /// decide is given too, when threads are given in two ways, or when there are threads but nothing to prefetch.
    pub fn build(self) -> Result<ItemLoader<'scope, B>> {
        if let [(one, ..), (other, ..), ..] = self.threads[..] {
            let reason = format!("its threads fetch, and {one} is given too: leave one of them out");
            return Err(Error::InvalidArgument { argument: other, reason });
        }
        let (count, threads) = self.threads.into_iter().next().map(|(_, count, threads)| (count, threads)).unzip();
        let count = count.unwrap_or(0);
        check_prefetch(count, self.prefetch)?;
        Ok(ItemLoader {
            fetch: self.fetch,
            epochs: self.epochs.build(self.dataset_len)?,
            threads,
            ahead: count.saturating_mul(self.prefetch).max(1),
            delivery: self.delivery,
        })
    }
}

impl<B: Send + 'static> ItemLoaderBuilder<'static, B> {
    /// Threads that fetch ahead of the consumer. Default 0: batches are fetched when they are asked for.
    pub fn threads(self, threads: usize) -> Self {
        self.fetched_by("threads", threads, || Arc::new(Pool::new(threads)))
    }

    /// A pool of the caller's own fetches ahead, with all of its threads. One of them that takes the batches helps with the
    /// pool's tasks meanwhile. A process that is forked later starts as many threads of its own.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::ItemLoader;
    ///
    /// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build()?);
    /// let loader = ItemLoader::builder(vec![1, 2, 3], |items: Vec<i32>| Ok(items)).batch_size(2).pool(pool).build()?;
    /// assert_eq!(loader.epoch(0)?.collect::<Result<Vec<_>, _>>()?, [vec![1, 2], vec![3]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pool(self, pool: Arc<ThreadPool>) -> Self {
        self.fetched_by("pool", pool.current_num_threads(), || Arc::new(Pool::of(pool)))
    }
}
