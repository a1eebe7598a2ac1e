//! [`Settings`]: what both loaders are told about their epochs and batches.

use super::epochs::EpochSettings;
use crate::{Delivery, Error, Result};

/// The settings that [`DataLoaderBuilder`](super::DataLoaderBuilder) and [`ItemLoaderBuilder`](super::ItemLoaderBuilder) have
/// in common. Their methods, with their docs, are those of `setters`.
pub(super) struct Settings {
    pub(super) epochs: EpochSettings,
    /// That of the method of this name.
    pub(super) seed: Option<u64>,
    /// That of `shuffle`, which serves where no other is given.
    pub(super) shuffle_seed: Option<u64>,
    /// Which index of a larger dataset the first sample has: what is random about samples follows from that.
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
    /// What random samples are drawn from.
    pub(super) fn sample_seed(&self) -> Option<u64> {
        self.seed.or(self.shuffle_seed)
    }

    /// How many batches `threads` threads have under way together.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are threads but nothing to prefetch.
    pub(super) fn ahead(&self, threads: usize) -> Result<usize> {
        if threads > 0 && self.prefetch == 0 {
            let reason = "threads that may fetch no batch ahead have nothing to do: give at least 1".into();
            return Err(Error::InvalidArgument { argument: "prefetch", reason });
        }
        Ok(threads.saturating_mul(self.prefetch).max(1))
    }

    /// Fails when samples are random and there is no seed.
    pub(super) fn check_seed(&self, is_random: bool) -> Result<()> {
        if !is_random || self.sample_seed().is_some() {
            return Ok(());
        }
        let reason = "the samples are random, and nothing says what they are drawn from: give a number".into();
        Err(Error::InvalidArgument { argument: "seed", reason })
    }
}

/// The methods of a builder with a field `settings` and a method `dataset_len`.
macro_rules! setters {
    () => {
        /// Samples per batch. Default 1.
        pub fn batch_size(mut self, batch_size: usize) -> Self {
            self.settings.epochs.batch_size = Some(batch_size);
            self
        }

        /// The order of the samples. Default: the dataset's.
        pub fn sampler(mut self, sampler: std::sync::Arc<dyn crate::Sampler>) -> Self {
            self.settings.epochs.sampler = Some(sampler);
            self
        }

        /// Another random order every epoch, a pure function of `seed` and the epoch's number. It is the seed of what is
        /// random about samples, too, unless [`seed`](Self::seed) gives another.
        pub fn shuffle(mut self, seed: u64) -> Self {
            let sampler = crate::RandomSampler::new(self.dataset_len(), seed);
            self.settings.shuffle_seed = Some(seed);
            self.sampler(std::sync::Arc::new(sampler))
        }

        /// What is random about samples is drawn from: each has a key that follows from this, the epoch and its index
        /// ([`SampleWriter::key`](crate::SampleWriter::key),
        /// [`ItemDatasetExt::map_random`](crate::ItemDatasetExt::map_random)), so it is the same for any number of threads,
        /// and after a resume.
        pub fn seed(mut self, seed: u64) -> Self {
            self.settings.seed = Some(seed);
            self
        }

        /// The first sample is that of this index of a larger dataset.
        #[cfg(feature = "burn")]
        pub(crate) fn first_index(mut self, index: usize) -> Self {
            self.settings.first_index = index;
            self
        }

        /// What becomes of a last batch that is smaller. Default: it comes.
        pub fn last_batch(mut self, last_batch: crate::LastBatch) -> Self {
            self.settings.epochs.last_batch = Some(last_batch);
            self
        }

        /// What makes the batches, in the place of a sampler and a batch size: torch's `batch_sampler`.
        pub fn batches(mut self, batches: std::sync::Arc<dyn crate::BatchingSampler>) -> Self {
            self.settings.epochs.batches = Some(batches);
            self
        }

        /// Which part of every epoch is this process's, and what happens to a remainder. Every rank gets as many batches as
        /// any other, and of the same sizes; with [`batches`](Self::batches) whole batches are dealt. Default: all of it.
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
        pub fn shard(mut self, shard: crate::Shard, remainder: crate::Remainder) -> Self {
            (self.settings.epochs.shard, self.settings.epochs.remainder) = (shard, remainder);
            self
        }

        /// Batches fetched ahead per thread. Default 2.
        pub fn prefetch(mut self, batches_per_thread: usize) -> Self {
            self.settings.prefetch = batches_per_thread;
            self
        }

        /// In which order batches reach the consumer. Default: the sampler's.
        pub fn delivery(mut self, delivery: crate::Delivery) -> Self {
            self.settings.delivery = delivery;
            self
        }
    };
}
pub(super) use setters;
