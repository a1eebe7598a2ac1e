//! [`LengthBucketBatchSampler`]: batches of samples of similar length.

use std::sync::Arc;

use super::compact::{CompactNumbers, reader_of};
use super::group_order::GroupOrder;
use super::length_sort::{Direction, LengthSort};
use super::{BatchingSampler, EpochBatches, LastBatch, Shuffling};
use crate::error::{Error, Result};
use crate::rng::{BulkPermutation, Permutation, Purpose, digest};
use crate::watch;

/// Number of samples between checks for cancellation.
const BLOCK: usize = 1 << 13;

/// Batches of samples of similar length, so that a batch has little padding, in an order that is still random.
///
/// With [`Shuffling::Seeded`] the samples are shuffled, sorted by length within windows of `window` samples, cut into
/// batches, and the batches are shuffled. Every second window is in descending order, so that batches across a window
/// boundary have similar lengths too. With [`Shuffling::Off`] all samples are sorted, longest first (so a batch that
/// does not fit into memory fails immediately), and batches come in that sequence. An epoch reads every sample once,
/// except in a last batch that is dropped.
///
/// When each rank takes one batch per step, all wait for the rank with the most work: [`balanced`](Self::balanced)
/// gives them batches of similar length.
///
/// An epoch is prepared when it begins: 4 bytes per sample (8 from 2^32 samples on) and the time to sort.
///
/// # Example
/// ```
/// use sluicegate::{BatchLimit, BatchingSampler, LastBatch, LengthBucketBatchSampler, Shuffling};
///
/// let lengths = [3, 9, 4, 1, 2];
/// let sampler = LengthBucketBatchSampler::new(&lengths, BatchLimit::Tokens(10), 100, LastBatch::Keep, Shuffling::Off)?;
/// let batches = sampler.batches(0)?;
/// let mut indices = Vec::new();
/// batches.indices(1, &mut indices);
/// assert_eq!(indices, [2, 0]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LengthBucketBatchSampler {
    lengths: Arc<CompactNumbers>,
    limit: BatchLimit,
    window: usize,
    last_batch: LastBatch,
    shuffling: Shuffling,
    balance: usize,
}

/// Determines when a batch is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchLimit {
    /// When it has this many samples.
    Samples(usize),
    /// When one more sample would make the padded batch (its number of samples times the longest length) larger than
    /// this. A sample of length 0 counts as length 1.
    Tokens(usize),
}

impl LengthBucketBatchSampler {
    /// Returns a sampler for samples with these `lengths`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a number is 0, a length is negative, a sample is longer than a batch may be (both
    /// messages name the sample), or there is no memory for the lengths.
    pub fn new(
        lengths: &[i64],
        limit: BatchLimit,
        window: usize,
        last_batch: LastBatch,
        shuffling: Shuffling,
    ) -> Result<Self> {
        Self::read(lengths.len(), reader_of(lengths), limit, window, last_batch, shuffling)
    }

    /// Returns a sampler for `len` samples. `read` fills its buffer with the lengths from the given start on.
    ///
    /// # Errors
    /// Those of `read`, and those of [`new`](Self::new).
    pub fn read(
        len: usize,
        read: impl FnMut(usize, &mut [i64]) -> Result<()>,
        limit: BatchLimit,
        window: usize,
        last_batch: LastBatch,
        shuffling: Shuffling,
    ) -> Result<Self> {
        let (argument, largest) = match limit {
            BatchLimit::Samples(samples) => ("batch_size", samples),
            BatchLimit::Tokens(tokens) => ("max_tokens", tokens),
        };
        for (argument, number) in [(argument, largest), ("window", window)] {
            if number == 0 {
                return Err(Error::invalid(argument, "expected a positive integer, but got 0"));
            }
        }
        let longest = match limit {
            BatchLimit::Samples(_) => i64::MAX as usize,
            BatchLimit::Tokens(tokens) => tokens,
        };
        let lengths = CompactNumbers::read_lengths(len, read, "sample", |sample, length| {
            if length <= longest {
                return Ok(());
            }
            let reason = format!(
                "sample {sample} has the length {length}, but a batch may have at most {longest} (max_tokens); raise \
                 max_tokens, shorten the sample, or remove it from the dataset"
            );
            Err(Error::invalid("lengths", reason))
        })?;
        Ok(Self { lengths: Arc::new(lengths), limit, window, last_batch, shuffling, balance: 1 })
    }

    /// Shuffles groups of `batches` batches instead of single batches: each group, starting at a multiple of `batches`,
    /// contains batches that are neighbors in the sorted sequence. If the number of ranks divides `batches`, all ranks
    /// have similar batches at each step; the order is the same for any number of ranks. If the number of batches in an
    /// epoch is not a multiple of `batches`, the rest come last.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `batches` is 0.
    pub fn balanced(self, batches: usize) -> Result<Self> {
        if batches == 0 {
            return Err(Error::invalid("balance", "expected a positive integer, but got 0"));
        }
        Ok(Self { balance: batches, ..self })
    }

    /// Returns the samples in the order in which they are cut into batches.
    fn sorted(&self, epoch: u64) -> Result<CompactNumbers> {
        let len = self.lengths.len();
        let mut samples = CompactNumbers::zeros(len, len, "lengths")?;
        let Shuffling::Seeded(seed) = self.shuffling else {
            let all: Vec<usize> = (0..len).collect();
            let sorted = LengthSort::default().sort(&all, &self.lengths, Direction::Descending)?.to_vec();
            samples.set_all(0, sorted.into_iter());
            return Ok(samples);
        };
        let order = Permutation::for_purpose(Purpose::LengthWindows, len as u64, (seed, epoch), &[]);
        let order = BulkPermutation::new(order);
        let mut window = vec![0; self.window.min(len)];
        watch::expect(len);
        let mut sort = LengthSort::default();
        for (number, start) in (0..len).step_by(self.window).enumerate() {
            let window = &mut window[..self.window.min(len - start)];
            for (number, block) in window.chunks_mut(BLOCK).enumerate() {
                watch::advance(block.len())?;
                order.indices((start + number * BLOCK) as u64, 1, block);
            }
            let direction = if number % 2 == 0 { Direction::Ascending } else { Direction::Descending };
            let sorted = sort.sort(window, &self.lengths, direction)?;
            samples.set_all(start, sorted.iter().copied());
        }
        Ok(samples)
    }

    /// Returns where each batch begins in `samples`, and where the last one ends.
    fn cut(&self, samples: &CompactNumbers) -> Result<CompactNumbers> {
        match self.limit {
            BatchLimit::Samples(limit) => self.cut_by_samples(samples.len(), limit),
            BatchLimit::Tokens(limit) => self.cut_by_tokens(samples, limit),
        }
    }

    fn cut_by_samples(&self, len: usize, limit: usize) -> Result<CompactNumbers> {
        let batches = self.last_batch.batches(len, limit);
        let mut starts = CompactNumbers::zeros(batches + 1, len, "lengths")?;
        (0..=batches).for_each(|batch| starts.set(batch, batch.saturating_mul(limit).min(len)));
        Ok(starts)
    }

    fn cut_by_tokens(&self, samples: &CompactNumbers, limit: usize) -> Result<CompactNumbers> {
        let is_over = |samples: usize, longest: usize| samples.saturating_mul(longest.max(1)) > limit;
        let len = samples.len();
        let mut starts = CompactNumbers::zeros(len + 1, len, "lengths")?;
        let (mut batches, mut start, mut longest) = (0, 0, 0);
        for place in 0..len {
            if place % BLOCK == 0 {
                watch::advance(0)?;
            }
            let length = self.lengths.get(samples.get(place));
            longest = length.max(longest);
            if is_over(place + 1 - start, longest) {
                (batches, start, longest) = (batches + 1, place, length);
                starts.set(batches, start);
            }
        }
        // The last batch is full if not even a sample of length 0 would fit.
        if len > start && (is_over(len + 1 - start, longest) || self.last_batch == LastBatch::Keep) {
            batches += 1;
            starts.set(batches, len);
        }
        starts.truncate(batches + 1);
        Ok(starts)
    }
}

impl BatchingSampler for LengthBucketBatchSampler {
    fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>> {
        let samples = self.sorted(epoch)?;
        let starts = self.cut(&samples)?;
        let order = match self.shuffling {
            Shuffling::Off => None,
            Shuffling::Seeded(seed) => Some(GroupOrder::new(starts.len() - 1, self.balance, |groups| {
                Permutation::for_purpose(Purpose::LengthBatches, groups, (seed, epoch), &[])
            })),
        };
        Ok(Box::new(LengthBucketBatches { samples, starts, order }))
    }

    fn identity(&self) -> String {
        let Self { lengths, limit, window, last_batch, shuffling, balance } = self;
        let (len, digest) = (lengths.len(), digest(lengths.iter().map(|length| length as u64)));
        // The default is not part of the identity, because states were saved before this setting existed.
        let balance = if *balance > 1 { format!(", balance={balance}") } else { String::new() };
        format!(
            "LengthBucketBatchSampler(len={len}, lengths={digest:016x}, limit={limit:?}, window={window}, \
             last_batch={last_batch:?}, shuffling={shuffling:?}{balance})"
        )
    }
}

struct LengthBucketBatches {
    samples: CompactNumbers,
    starts: CompactNumbers,
    order: Option<GroupOrder>,
}

impl EpochBatches for LengthBucketBatches {
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>) {
        let len = self.len();
        assert!(batch_in_epoch < len, "batch {batch_in_epoch} of an epoch of {len} batches");
        let batch = self.order.as_ref().map_or(batch_in_epoch, |order| order.place_at(batch_in_epoch));
        self.samples.copy(self.starts.get(batch)..self.starts.get(batch + 1), into);
    }
}
