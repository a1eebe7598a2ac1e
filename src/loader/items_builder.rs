//! [`ItemLoaderBuilder`]: configures a loader of items.

use std::sync::Arc;
use std::thread::Scope;

use rayon::ThreadPool;

use super::ItemLoader;
use super::settings::{Settings, setters};
use crate::pipeline::{Fetch, FetchItems, Pool, ScopedThreads, Spawn};
use crate::{Error, ItemDataset, Result};

/// Makes a fetch from the seed for random items and the index of the first item.
type MakeFetch<'scope, B> = Box<dyn FnOnce(Option<u64>, usize) -> Arc<dyn Fetch<B> + 'scope> + Send + Sync + 'scope>;

/// Configures an [`ItemLoader`].
#[must_use]
pub struct ItemLoaderBuilder<'scope, B> {
    make_fetch: MakeFetch<'scope, B>,
    dataset_len: usize,
    is_random: bool,
    settings: Settings,
    /// For each supplied set of threads: the setting's name, their number, and the threads.
    threads: Vec<(&'static str, usize, Arc<dyn Spawn<'scope> + 'scope>)>,
}

impl<'scope, B: Send + 'scope> ItemLoaderBuilder<'scope, B> {
    pub(super) fn new<D, C>(dataset: D, collate: C) -> Self
    where
        D: ItemDataset + 'scope,
        C: Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'scope,
    {
        let (dataset_len, is_random) = (dataset.len(), dataset.is_random());
        let make_fetch = Box::new(|seed, first| {
            Arc::new(FetchItems::new(dataset, collate, seed, first)) as Arc<dyn Fetch<B> + 'scope>
        });
        Self { make_fetch, dataset_len, is_random, settings: Settings::default(), threads: Vec::new() }
    }

    setters!();

    fn dataset_len(&self) -> usize {
        self.dataset_len
    }

    /// Fetches ahead on threads of `scope`, for values that borrow from outside it. They start when there is something
    /// to fetch, and stop with the loader and its batches; `threads = 0` means none.
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

    /// Returns the loader. Starts nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `batch_size` is 0, if both `batches` and a setting
    /// that they determine are given, if threads are given in two ways, if there are threads but nothing to prefetch,
    /// or if items are random and there is no seed.
    pub fn build(self) -> Result<ItemLoader<'scope, B>> {
        if let [(one, ..), (other, ..), ..] = self.threads[..] {
            let reason = format!("it brings its own threads, so {one} can't be passed, too; pass one of the two");
            return Err(Error::invalid(other, reason));
        }
        let (count, threads) = self.threads.into_iter().next().map(|(_, count, threads)| (count, threads)).unzip();
        let count = count.unwrap_or(0);
        let ahead = self.settings.ahead(count)?;
        self.settings.check_seed(self.is_random)?;
        let seed = self.settings.sample_seed();
        let Settings { epochs, delivery, first_index, .. } = self.settings;
        let epochs = epochs.build(self.dataset_len)?;
        Ok(ItemLoader { fetch: (self.make_fetch)(seed, first_index), epochs, threads, ahead, delivery })
    }
}

impl<B: Send + 'static> ItemLoaderBuilder<'static, B> {
    /// Sets the number of threads that fetch ahead of the consumer. Default 0: batches are fetched when they are
    /// requested.
    pub fn threads(self, threads: usize) -> Self {
        self.fetched_by("threads", threads, || Arc::new(Pool::new(threads)))
    }

    /// Fetches ahead on all threads of the caller's pool. If one of these threads consumes the batches, it runs the
    /// pool's tasks while it waits. A process that is forked later starts the same number of its own threads.
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
