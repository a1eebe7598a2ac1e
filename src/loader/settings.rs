//! [`Settings`]: the settings for epochs and batches that both loaders share.

use super::epochs::EpochSettings;
use crate::pipeline::Delivery;
use crate::{Error, Result};

/// The settings that [`DataLoaderBuilder`](super::DataLoaderBuilder) and
/// [`ItemLoaderBuilder`](super::ItemLoaderBuilder) share. Their methods and docs are in `setters`.
pub(super) struct Settings {
    pub(super) epochs: EpochSettings,
    /// Set by the method of the same name.
    pub(super) seed: Option<u64>,
    /// Set by `shuffle`, and used if no other seed is given.
    pub(super) shuffle_seed: Option<u64>,
    /// The index of the first sample in a larger dataset, from which the randomness of samples is derived.
    pub(super) first_index: usize,
    /// Batches fetched ahead per thread.
    pub(super) prefetch: usize,
    pub(super) delivery: Delivery,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            epochs: EpochSettings::default(),
            seed: None,
            shuffle_seed: None,
            first_index: 0,
            prefetch: 2,
            delivery: Delivery::InOrder,
        }
    }
}

impl Settings {
    /// Returns the seed for random samples.
    pub(super) fn sample_seed(&self) -> Option<u64> {
        self.seed.or(self.shuffle_seed)
    }

    /// Returns how many batches `threads` threads have in flight together.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are threads but nothing to prefetch.
    pub(super) fn ahead(&self, threads: usize) -> Result<usize> {
        if threads > 0 && self.prefetch == 0 {
            return Err(Error::invalid("prefetch", "expected at least 1 batch if there are threads, got 0"));
        }
        Ok(threads.saturating_mul(self.prefetch).max(1))
    }

    /// Fails if samples are random and there is no seed.
    pub(super) fn check_seed(&self, is_random: bool) -> Result<()> {
        if !is_random || self.sample_seed().is_some() {
            return Ok(());
        }
        Err(Error::invalid("seed", "the samples are random, so a seed is needed; pass a number"))
    }
}

/// Defines the methods of a builder with a field `settings` and a method `dataset_len`.
macro_rules! setters {
    () => {
        /// Sets the number of samples per batch. Default: 1.
        pub fn batch_size(mut self, batch_size: usize) -> Self {
            self.settings.epochs.batch_size = Some(batch_size);
            self
        }

        /// Sets the order of the samples. Default: the dataset's order.
        pub fn sampler(mut self, sampler: std::sync::Arc<dyn crate::Sampler>) -> Self {
            self.settings.epochs.sampler = Some(sampler);
            self
        }

        /// Shuffles differently every epoch; the order is a pure function of `seed` and the epoch's number. It is also
        /// the seed for random samples, unless [`seed`](Self::seed) sets a different one.
        pub fn shuffle(mut self, seed: u64) -> Self {
            let sampler = crate::RandomSampler::new(self.dataset_len(), seed);
            self.settings.shuffle_seed = Some(seed);
            self.sampler(std::sync::Arc::new(sampler))
        }

        /// Sets the seed for random samples: each has a key that is derived from this seed, the epoch, and the sample's
        /// index ([`SampleWriter::key`](crate::SampleWriter::key),
        /// [`ItemDatasetExt::map_random`](crate::ItemDatasetExt::map_random)), so it is the same for any number of
        /// threads, and after a resume.
        pub fn seed(mut self, seed: u64) -> Self {
            self.settings.seed = Some(seed);
            self
        }

        /// Sets the index of the first sample in a larger dataset.
        #[cfg(feature = "burn")]
        pub(crate) fn first_index(mut self, index: usize) -> Self {
            self.settings.first_index = index;
            self
        }

        /// Sets how to treat a smaller last batch. Default: yield it.
        pub fn last_batch(mut self, last_batch: crate::LastBatch) -> Self {
            self.settings.epochs.last_batch = Some(last_batch);
            self
        }

        /// Sets a sampler that makes the batches, instead of a sampler and a batch size: torch's `batch_sampler`.
        pub fn batches(mut self, batches: std::sync::Arc<dyn crate::BatchingSampler>) -> Self {
            self.settings.epochs.batches = Some(batches);
            self
        }

        /// Sets this process's part of every epoch, and how to treat a remainder. Every rank gets the same number of
        /// batches, of the same sizes; with [`batches`](Self::batches), whole batches are distributed. Default: the
        /// whole epoch.
        ///
        /// Every rank needs the same sampler, including its seed, and the sampler must not be sharded itself.
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
        pub fn shard(mut self, shard: crate::Shard, remainder: crate::Remainder) -> Self {
            (self.settings.epochs.shard, self.settings.epochs.remainder) = (shard, remainder);
            self
        }

        /// Sets how many batches each thread fetches ahead. Default: 2.
        pub fn prefetch(mut self, batches_per_thread: usize) -> Self {
            self.settings.prefetch = batches_per_thread;
            self
        }

        /// Sets the order in which batches reach the consumer. Default: the sampler's order.
        pub fn delivery(mut self, delivery: crate::pipeline::Delivery) -> Self {
            self.settings.delivery = delivery;
            self
        }
    };
}
pub(super) use setters;
