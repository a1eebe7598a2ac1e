//! [`BalancedBatchSampler`]: the same number of samples of each class in a batch.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::deal::DealKeys;
use super::even_draws::EvenDraws;
use super::{BatchingSampler, ClassIndex, EpochBatches};
use crate::error::{Error, Result};
use crate::rng::Purpose;

/// Batches of `classes_per_batch` classes with `samples_per_class` samples each, class after class.
///
/// All classes are visited equally often (plus or minus one), whatever their sizes, and so are all samples of a class:
/// in an epoch, a rare class is read several times, and a frequent one only in part. No class occurs twice in a batch,
/// and neither does a sample unless its class has fewer than `samples_per_class` samples. The batches are a pure
/// function of (seed, epoch, number of the batch): no state is stored.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{BalancedBatchSampler, BatchingSampler, ClassIndex};
///
/// let index = Arc::new(ClassIndex::new(&[0, 0, 0, 0, 0, 0, 1, 1, 2, 2])?);
/// let batches = BalancedBatchSampler::new(index, 2, 2, None, 7)?.batches(0)?;
/// assert_eq!(batches.len(), 10 / 4);
/// let mut indices = Vec::new();
/// batches.indices(1, &mut indices);
/// assert_eq!(indices.len(), 4);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BalancedBatchSampler {
    index: Arc<ClassIndex>,
    classes_per_batch: u64,
    samples_per_class: u64,
    batches: usize,
    seed: u64,
}

impl BalancedBatchSampler {
    /// Returns a sampler for the samples in `index`, with `num_batches` per epoch (default: all full batches).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a number is 0, or a batch needs more classes than there are.
    pub fn new(
        index: Arc<ClassIndex>,
        classes_per_batch: usize,
        samples_per_class: usize,
        num_batches: Option<NonZeroUsize>,
        seed: u64,
    ) -> Result<Self> {
        let invalid = |argument, reason| Err(Error::invalid(argument, reason));
        let classes = index.classes().len();
        if classes_per_batch == 0 || classes_per_batch > classes {
            let reason = format!("expected 1 to {classes}, the number of classes, but got {classes_per_batch}");
            return invalid("classes_per_batch", reason);
        }
        let Some(batch_size) = classes_per_batch.checked_mul(samples_per_class).filter(|&size| size > 0) else {
            let reason = format!(
                "expected a positive number, small enough for the size of a batch to be counted, got \
                 {samples_per_class}"
            );
            return invalid("samples_per_class", reason);
        };
        Ok(Self {
            batches: num_batches.map_or(index.len() / batch_size, NonZeroUsize::get),
            index,
            classes_per_batch: classes_per_batch as u64,
            samples_per_class: samples_per_class as u64,
            seed,
        })
    }
}

impl BatchingSampler for BalancedBatchSampler {
    fn batches(&self, epoch: u64) -> Result<Box<dyn EpochBatches>> {
        let keys = DealKeys { purpose: Purpose::BalancedClasses, seed: self.seed, epoch, word: 0 };
        let classes = EvenDraws::new(self.index.classes().len() as u64, self.classes_per_batch, keys);
        Ok(Box::new(BalancedBatches { sampler: self.clone(), classes, epoch }))
    }

    fn identity(&self) -> String {
        let Self { index, classes_per_batch, samples_per_class, batches, seed } = self;
        let (len, digest) = (index.len(), index.digest());
        format!(
            "BalancedBatchSampler(len={len}, labels={digest:016x}, classes_per_batch={classes_per_batch}, \
             samples_per_class={samples_per_class}, batches={batches}, seed={seed})"
        )
    }
}

struct BalancedBatches {
    sampler: BalancedBatchSampler,
    classes: EvenDraws,
    epoch: u64,
}

impl EpochBatches for BalancedBatches {
    fn len(&self) -> usize {
        self.sampler.batches
    }

    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>) {
        let BalancedBatchSampler { index, samples_per_class, seed, batches, .. } = &self.sampler;
        assert!(batch_in_epoch < *batches, "batch {batch_in_epoch} of an epoch of {batches} batches");
        into.clear();
        let visits = self.classes.before(batch_in_epoch as u64);
        self.classes.draw(batch_in_epoch as u64, |class| {
            // Keyed by the label: adding a class leaves the samples of the others unchanged.
            let label = index.classes()[class as usize] as u64;
            let keys = DealKeys { purpose: Purpose::BalancedSamples, seed: *seed, epoch: self.epoch, word: label };
            let samples = EvenDraws::new(index.count(class as usize) as u64, *samples_per_class, keys);
            let sample_at = |place| index.sample_at(class as usize, place as usize);
            samples.draw(visits.times(class), |place| into.push(sample_at(place)));
        });
    }
}
