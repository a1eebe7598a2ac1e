//! [`StratifiedBatchSampler`]: every batch has the proportions of the dataset.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::stratified_deal::StratifiedDeal;
use super::{BatchingSampler, ClassIndex, EpochBatches, LastBatch, check_positive};
use crate::error::Result;
use crate::rng::{KeyStream, Permutation, Purpose};

/// Batches of `batch_size` samples with the classes in the dataset's proportions, as closely as integers allow.
///
/// A class with c of the n samples has `batch_size` * c / n of them in each full batch, rounded up or down, and
/// likewise in the last batch, which is smaller. An epoch reads every sample once. With [`LastBatch::Drop`] the samples
/// of the last batch are not read; they are different ones in each epoch. Within a batch the samples are in random
/// order, so that parts of a batch are stratified on average.
///
/// An epoch takes time and memory for its classes and for the samples of one batch; a batch takes some hundred
/// nanoseconds per sample.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{BatchingSampler, ClassIndex, LastBatch, StratifiedBatchSampler};
///
/// let index = Arc::new(ClassIndex::new(&[5, 5, 5, 5, 5, 5, 8, 8, 8])?);
/// let batches = StratifiedBatchSampler::new(index, 3, LastBatch::Keep, 7)?.batches(0)?;
/// let mut indices = Vec::new();
/// for batch in 0..3 {
///     batches.indices(batch, &mut indices);
///     assert_eq!(indices.iter().filter(|&&index| index >= 6).count(), 1);
/// }
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StratifiedBatchSampler {
    index: Arc<ClassIndex>,
    batch_size: usize,
    last_batch: LastBatch,
    seed: u64,
}

impl StratifiedBatchSampler {
    /// Returns a sampler for the samples in `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `batch_size` is 0, with torch's message.
    pub fn new(index: Arc<ClassIndex>, batch_size: usize, last_batch: LastBatch, seed: u64) -> Result<Self> {
        check_positive("batch_size", batch_size)?;
        Ok(Self { index, batch_size, last_batch, seed })
    }
}

impl BatchingSampler for StratifiedBatchSampler {
    fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>> {
        Ok(Box::new(StratifiedBatches::new(self.clone(), epoch)))
    }

    fn identity(&self) -> String {
        let Self { index, batch_size, last_batch, seed } = self;
        let (len, digest) = (index.len(), index.digest());
        format!(
            "StratifiedBatchSampler(len={len}, labels={digest:016x}, batch_size={batch_size}, \
             last_batch={last_batch:?}, seed={seed})"
        )
    }
}

/// One epoch. Of the places of each class, the first belong to the full batches in equal numbers, the next are dealt to
/// single full batches, and the last go to the remainder. The class's permutation assigns samples to places.
struct StratifiedBatches {
    sampler: StratifiedBatchSampler,
    epoch: u64,
    /// Number of full batches.
    full: usize,
    /// The classes that every full batch contains, and how many samples of each.
    base: Vec<(usize, u64)>,
    /// The classes with dealt samples, in random order, each with the number of its samples that come before those.
    dealt: Vec<(usize, u64)>,
    /// None if there are no full batches.
    deal: Option<StratifiedDeal>,
    /// The classes of the last batch, each with the range of its places.
    remainder: Vec<(usize, u64, u64)>,
    /// The permutation of each class, cached once it is needed: for a small class it takes longer to create than to
    /// read. Empty if there are too many classes to cache.
    permutations: Vec<OnceLock<Box<Permutation>>>,
}

/// With their permutations, this many classes take at most 40 MiB.
const MOST_REMEMBERED: usize = 1 << 16;

impl StratifiedBatches {
    fn new(sampler: StratifiedBatchSampler, epoch: u64) -> Self {
        let index = &sampler.index;
        let key = (sampler.seed, epoch);
        let (len, classes) = (index.len(), index.classes().len());
        let (full, rest) = (len / sampler.batch_size, len % sampler.batch_size);
        // Neighboring classes in the line rarely share a batch, so use a different line in each epoch.
        let line = Permutation::for_purpose(Purpose::StratifiedClasses, classes as u64, key, &[]);
        let offset =
            KeyStream::new(Purpose::StratifiedRemainder, key.0, key.1).absorb(len as u64).number_below(len as u64);
        let mut cut = RemainderCut { len: len as u128, rest: rest as u128, offset: u128::from(offset), passed: 0 };
        let (mut base, mut dealt, mut counts, mut remainder) = (vec![], vec![], vec![], vec![]);
        for place in 0..classes as u64 {
            let class = line.index_at(place) as usize;
            let count = index.count(class) as u64;
            let read = count - cut.next(count);
            if read < count {
                remainder.push((class, read, count));
            }
            if let Some(each) = read.checked_div(full as u64) {
                if each > 0 {
                    base.push((class, each));
                }
                if !read.is_multiple_of(full as u64) {
                    dealt.push((class, each * full as u64));
                    counts.push(read % full as u64);
                }
            }
        }
        let deal = (full > 0).then(|| StratifiedDeal::new(counts.into_iter(), full as u64, key));
        let remembered = if classes > MOST_REMEMBERED { 0 } else { classes };
        let permutations = (0..remembered).map(|_| OnceLock::new()).collect();
        Self { sampler, epoch, full, base, dealt, deal, remainder, permutations }
    }

    /// Returns the permutation that assigns samples of `class` to places.
    fn samples_of(&self, class: usize) -> Cow<'_, Permutation> {
        let StratifiedBatchSampler { index, seed, .. } = &self.sampler;
        let make = || {
            let (count, label) = (index.count(class) as u64, index.classes()[class] as u64);
            Permutation::for_purpose(Purpose::StratifiedSamples, count, (*seed, self.epoch), &[label])
        };
        match self.permutations.get(class) {
            Some(remembered) => Cow::Borrowed(remembered.get_or_init(|| Box::new(make()))),
            None => Cow::Owned(make()),
        }
    }
}

/// The number of samples of each class in the last batch: its share, rounded so that all add up to the rest.
struct RemainderCut {
    len: u128,
    rest: u128,
    /// The shares are intervals on a line; each of the points `offset`, `offset` + `len`, … gives one sample to the
    /// class whose interval contains it.
    offset: u128,
    passed: u128,
}

impl RemainderCut {
    fn next(&mut self, count: u64) -> u64 {
        let points_below = |place: u128| (place + self.len - 1 - self.offset) / self.len;
        let share = u128::from(count) * self.rest;
        let before = points_below(self.passed);
        self.passed += share;
        (points_below(self.passed) - before) as u64
    }
}

impl EpochBatches for StratifiedBatches {
    fn len(&self) -> usize {
        let has_last = !self.remainder.is_empty() && self.sampler.last_batch == LastBatch::Keep;
        self.full + usize::from(has_last)
    }

    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>) {
        let len = self.len();
        assert!(batch_in_epoch < len, "batch {batch_in_epoch} of an epoch of {len} batches");
        let index = &self.sampler.index;
        let mut samples = Vec::with_capacity(self.sampler.batch_size.min(index.len()));
        let mut take = |class: usize, start: u64, stop: u64| {
            let permutation = self.samples_of(class);
            let places = (start..stop).map(|place| permutation.index_at(place) as usize);
            samples.extend(places.map(|place| index.sample_at(class, place)));
        };
        let batch = batch_in_epoch as u64;
        match &self.deal {
            Some(deal) if batch_in_epoch < self.full => {
                self.base.iter().for_each(|&(class, each)| take(class, batch * each, (batch + 1) * each));
                deal.cards(batch, |place, card| {
                    let (class, start) = self.dealt[place];
                    take(class, start + card, start + card + 1);
                });
            }
            _ => self.remainder.iter().for_each(|&(class, start, stop)| take(class, start, stop)),
        }
        let key = (self.sampler.seed, self.epoch);
        let sequence = Permutation::for_purpose(Purpose::StratifiedBatch, samples.len() as u64, key, &[batch]);
        into.clear();
        into.extend((0..samples.len() as u64).map(|position| samples[sequence.index_at(position) as usize]));
    }
}
