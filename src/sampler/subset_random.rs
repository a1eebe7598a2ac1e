//! [`SubsetRandomSampler`]: given indices, in random order.

use std::sync::Arc;

use super::compact::CompactNumbers;
use super::{EpochOrder, RandomSampler, Sampler};
use crate::error::Result;
use crate::rng::digest;

/// Yields each of the given indices once, in a pseudorandom order determined by (seed, epoch): torch's
/// `SubsetRandomSampler`, in the order of seed mode.
///
/// The indices are stored once, in 4 bytes each if all are below 2^32, else in 8; an order takes no additional memory.
///
/// # Example
/// ```
/// use sluicegate::{Sampler, SubsetRandomSampler};
///
/// let order = SubsetRandomSampler::new([30, 10, 20], 7).order(0)?;
/// let mut indices: Vec<usize> = (0..3).map(|position| order.index_at(position)).collect();
/// indices.sort();
/// assert_eq!(indices, [10, 20, 30]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SubsetRandomSampler {
    indices: Arc<CompactNumbers>,
    places: RandomSampler,
}

impl SubsetRandomSampler {
    /// Returns a sampler of these indices, which may repeat. Every seed is valid.
    pub fn new(indices: impl IntoIterator<Item = usize>, seed: u64) -> Self {
        let indices: CompactNumbers = indices.into_iter().collect();
        let places = RandomSampler::new(indices.len(), seed);
        SubsetRandomSampler { indices: Arc::new(indices), places }
    }
}

impl Sampler for SubsetRandomSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        Ok(Box::new(SubsetOrder { indices: Arc::clone(&self.indices), places: self.places.order(epoch)? }))
    }

    fn identity(&self) -> String {
        let (len, digest) = (self.indices.len(), digest(self.indices.iter().map(|index| index as u64)));
        format!("SubsetRandomSampler(len={len}, indices={digest:016x}, seed={})", self.places.seed())
    }
}

struct SubsetOrder {
    indices: Arc<CompactNumbers>,
    places: Box<dyn EpochOrder>,
}

impl EpochOrder for SubsetOrder {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn index_at(&self, position: usize) -> usize {
        self.indices.get(self.places.index_at(position))
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        self.places.indices_by(start, step, into);
        self.indices.look_up(into);
    }
}
