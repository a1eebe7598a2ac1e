//! [`ItemLoader`]: batches of a dataset without fields.

use std::sync::Arc;

use super::epochs::Epochs;
use super::{Batches, ItemLoaderBuilder};
use crate::pipeline::{Delivery, Fetch, Prefetch, Spawn};
use crate::{EpochPlan, ItemDataset, LoaderState, Result};

/// Batches of an [`ItemDataset`], epoch by epoch: the result of a closure for the items of each batch. It is a
/// [`DataLoader`](crate::DataLoader) for samples without fields: samplers, orders, shards, states, and prefetching are
/// the same.
///
/// The items and the batches do not have to be `Clone`, `Debug`, or, on threads of a scope, `'static`.
///
/// # Panics in user code
/// A panic becomes the error [`Panic`](crate::Error::Panic) of its batch, with the index in the dataset of the sample
/// that caused it (to find it, the samples of the batch are read again, one by one).
///
/// # Example
/// ```
/// use sluicegate::{Error, ItemDatasetExt, ItemLoader};
///
/// let words: Vec<String> = "the quick brown fox jumps over the lazy dog".split(' ').map(String::from).collect();
/// let dataset = words.map(|word: String| if word.is_empty() { Err(Error::User("no word".into())) } else { Ok(word.len()) });
/// let loader = ItemLoader::builder(dataset, |lengths: Vec<usize>| Ok(lengths.iter().sum::<usize>()));
/// let loader = loader.batch_size(4).shuffle(7).threads(2).build()?;
///
/// let mut batches = loader.epoch(0)?;
/// let first = batches.next().expect("nine words are three batches")?;
/// let state = batches.state();
/// let rest: usize = loader.resume(&state)?.sum::<Result<usize, _>>()?;
/// assert_eq!(first + rest, 35);
/// # Ok::<(), sluicegate::Error>(())
/// ```
///
/// A dataset that borrows from the stack, on threads of a scope:
/// ```
/// use sluicegate::ItemLoader;
///
/// let words = ["the", "quick", "brown", "fox"].map(String::from);
/// let longest = std::thread::scope(|scope| {
///     let loader = ItemLoader::builder(&words[..], |batch: Vec<&String>| Ok(batch)); // references, nothing is cloned
///     let loader = loader.batch_size(2).scoped_threads(scope, 2).build()?;
///     let mut longest = "";
///     for batch in loader.epoch(0)? {
///         longest = batch?.into_iter().fold(longest, |longest, word| if word.len() > longest.len() { word } else { longest });
///     }
///     Ok::<_, sluicegate::Error>(longest)
/// })?;
/// assert_eq!(longest, "quick");
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct ItemLoader<'scope, B> {
    pub(super) fetch: Arc<dyn Fetch<B> + 'scope>,
    pub(super) epochs: Epochs,
    pub(super) threads: Option<Arc<dyn Spawn<'scope> + 'scope>>,
    pub(super) ahead: usize,
    pub(super) delivery: Delivery,
}

impl<'scope, B: Send + 'scope> ItemLoader<'scope, B> {
    /// Returns a builder for a loader of `dataset`, whose batches are the results of `collate` for the items of each
    /// batch. Defaults: one item per batch, in the dataset's order, on the calling thread.
    ///
    /// `collate` is called from many threads at once, on the thread that fetched the items. Report its own errors as
    /// [`Error::User`](crate::Error::User).
    pub fn builder<D, C>(dataset: D, collate: C) -> ItemLoaderBuilder<'scope, B>
    where
        D: ItemDataset + 'scope,
        C: Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'scope,
    {
        ItemLoaderBuilder::new(dataset, collate)
    }

    /// Returns the batches of `epoch`, from the first on.
    ///
    /// # Errors
    /// Those of the sampler.
    pub fn epoch(&self, epoch: u64) -> Result<Batches<'scope, B>> {
        self.batches_from(self.epochs.start(epoch))
    }

    /// Returns the remaining batches of the epoch in which `state` was saved, like
    /// [`DataLoader::resume`](crate::DataLoader::resume). States of a `DataLoader` work too, if the length of the
    /// dataset and the sampler are the same.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) if the state is for a different order; those of the sampler.
    pub fn resume(&self, state: &LoaderState) -> Result<Batches<'scope, B>> {
        self.batches_from(self.epochs.adapted(state)?)
    }

    /// Returns this rank's batches of `epoch` without loading them: which items each of them contains.
    ///
    /// # Errors
    /// Those of the sampler.
    pub fn plan(&self, epoch: u64) -> Result<EpochPlan> {
        self.epochs.plan(epoch)
    }

    fn batches_from(&self, state: LoaderState) -> Result<Batches<'scope, B>> {
        let plan = self.epochs.plan_from(&state)?;
        let window = Prefetch::over(Arc::clone(&self.fetch), self.threads.clone(), self.delivery);
        Ok(Batches::new(plan, window, (self.ahead, None), state))
    }
}
