//! [`RandomSampler`]: every index once, in an order that is computed and not stored.

use super::{EpochOrder, Sampler};
use crate::error::Result;
use crate::rng::Permutation;

/// Every index once, in a pseudorandom order of (seed, epoch): the order of seed mode.
///
/// An order takes no memory and no time to make, for 10^10 samples as for ten, and starts at any position as fast as at
/// the first; an index costs tens of nanoseconds. See [`Permutation`] for what it promises. It is not torch's order:
/// that is [`TorchRandomSampler`](crate::TorchRandomSampler).
///
/// # Example
/// ```
/// use sluicegate::{RandomSampler, Sampler};
///
/// let sampler = RandomSampler::new(10_000_000_000, 7);
/// let order = sampler.order(0)?;
/// assert!(order.index_at(9_999_999_999) < order.len());
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomSampler {
    len: usize,
    seed: u64,
}

impl RandomSampler {
    /// A sampler for `len` samples. Every seed is legal.
    pub fn new(len: usize, seed: u64) -> Self {
        RandomSampler { len, seed }
    }
}

impl Sampler for RandomSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        Ok(Box::new(RandomOrder { permutation: Permutation::new(self.len as u64, self.seed, epoch) }))
    }
}

struct RandomOrder {
    permutation: Permutation,
}

impl EpochOrder for RandomOrder {
    fn len(&self) -> usize {
        self.permutation.len() as usize
    }

    fn index_at(&self, position: usize) -> usize {
        self.permutation.index_at(position as u64) as usize
    }
}
