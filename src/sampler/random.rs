//! [`RandomSampler`]: random indices, in an order that is computed instead of stored.

use super::{EpochOrder, Sampler, check_positions};
use crate::error::{Error, Result};
use crate::rng::{Draws, PermutationSeries, Series, below};

/// Yields every index once, in a pseudorandom order determined by (seed, epoch): the order of seed mode. Optionally
/// yields more or fewer of them, or draws each independently.
///
/// An order takes no memory and no time to create, whether for 10^10 samples or ten, and starts at any position as fast
/// as at the first; an index takes a few nanoseconds. (After reading more of one order than the square root of its
/// length, the order caches the values that it would compute repeatedly: 45 kB for 10^6 samples, 1.4 MiB for 10^9.) See
/// [`Permutation`](crate::Permutation) for its guarantees. For torch's order, use
/// [`TorchRandomSampler`](crate::TorchRandomSampler).
///
/// # Example
/// ```
/// use sluicegate::{RandomSampler, Sampler};
///
/// let sampler = RandomSampler::new(10_000_000_000, 7);
/// let order = sampler.order(0)?;
/// assert!(order.index_at(9_999_999_999) < order.len());
///
/// let draws = RandomSampler::new(10, 7).with_num_samples(1000).with_replacement();
/// assert_eq!(draws.order(0)?.len(), 1000);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomSampler {
    len: usize,
    num_samples: usize,
    replacement: Replacement,
    seed: u64,
}

/// How samples are drawn; its names are part of the sampler's identity.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replacement {
    /// A sample is drawn again only after every other has been drawn as often.
    Without,
    /// Every draw is independent of the others.
    With,
}

impl RandomSampler {
    /// Returns a sampler for `len` samples, each drawn once. Every seed is valid.
    pub fn new(len: usize, seed: u64) -> Self {
        RandomSampler { len, num_samples: len, replacement: Replacement::Without, seed }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Draws `num_samples` per epoch. If that exceeds the number of samples, without replacement, an epoch consists of
    /// complete orders, all unrelated, and the beginning of a last one.
    pub fn with_num_samples(self, num_samples: usize) -> Self {
        RandomSampler { num_samples, ..self }
    }

    /// Draws every sample independently of the others: torch's `replacement`.
    pub fn with_replacement(self) -> Self {
        RandomSampler { replacement: Replacement::With, ..self }
    }
}

impl Sampler for RandomSampler {
    /// # Errors
    /// [`Error::InvalidArgument`] if samples are to be drawn from an empty dataset.
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        if self.len == 0 && self.num_samples > 0 {
            return Err(Error::invalid(
                "num_samples",
                format!("can't draw {} samples from an empty dataset", self.num_samples),
            ));
        }
        let (len, num_samples) = (self.len as u64, self.num_samples);
        Ok(match self.replacement {
            Replacement::With => Box::new(DrawnOrder { draws: Draws::new(self.seed, epoch), len, num_samples }),
            Replacement::Without => {
                let passes = PermutationSeries::new(Series::Pass, self.seed, epoch);
                Box::new(PassesOrder { passes, len, num_samples })
            }
        })
    }

    fn identity(&self) -> String {
        let RandomSampler { len, num_samples, replacement, seed } = self;
        format!("RandomSampler(len={len}, num_samples={num_samples}, replacement={replacement:?}, seed={seed})")
    }
}

/// One permutation after another.
struct PassesOrder {
    passes: PermutationSeries,
    len: u64,
    num_samples: usize,
}

impl EpochOrder for PassesOrder {
    fn len(&self) -> usize {
        self.num_samples
    }

    fn index_at(&self, position: usize) -> usize {
        assert!(position < self.num_samples, "position {position} of an order of {} indices", self.num_samples);
        let position = position as u64;
        self.passes.at(position / self.len, self.len).index_at(position % self.len) as usize
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        check_positions(start, step, into.len(), self.num_samples);
        let (mut position, step) = (start as u64, step as u64);
        let mut rest = into;
        while !rest.is_empty() {
            let (pass, in_pass) = (position / self.len, position % self.len);
            let count = (self.len - in_pass).div_ceil(step.max(1)).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(count as usize);
            self.passes.at(pass, self.len).indices(in_pass, step, now);
            position = position.wrapping_add(count.wrapping_mul(step));
            rest = later;
        }
    }
}

/// One independent draw at each position.
struct DrawnOrder {
    draws: Draws,
    len: u64,
    num_samples: usize,
}

impl EpochOrder for DrawnOrder {
    fn len(&self) -> usize {
        self.num_samples
    }

    fn index_at(&self, position: usize) -> usize {
        assert!(position < self.num_samples, "position {position} of an order of {} indices", self.num_samples);
        below(self.len, self.draws.word_at(position as u64)).0 as usize
    }
}
