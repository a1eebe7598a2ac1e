//! [`Mixed`]: samples of several datasets in proportion to weights.

use crate::Result;
use crate::dataset::Selection;
use crate::sampler::{EpochOrder, MixtureSampler, MixtureWeights, Sampler, StopCriteria};

/// The samples of some concatenated datasets, in the order of a mixture's epoch 0.
pub(super) struct Mixed(Box<dyn EpochOrder>);

impl Mixed {
    /// Returns the mixture of datasets with these lengths.
    pub(super) fn new(lens: &[usize], weights: &MixtureWeights, stop: StopCriteria, seed: u64) -> Result<Self> {
        Ok(Self(MixtureSampler::new(lens, weights, stop, seed)?.order(0)?))
    }
}

impl Selection for Mixed {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn index_at(&self, place: usize) -> usize {
        self.0.index_at(place)
    }
}
