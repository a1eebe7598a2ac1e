//! `mix`: several datasets in proportion to weights.

use std::sync::Arc;

use crate::Result;
use crate::dataset::{Concat, Selection, Subset};
use crate::sampler::{EpochOrder, MixtureSampler, MixtureWeights, Sampler, StopCriteria};

struct Mixed(Box<dyn EpochOrder>);

impl Selection for Mixed {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn index_at(&self, place: usize) -> usize {
        self.0.index_at(place)
    }
}

/// The samples of `parts`, which have these lengths, in the first order of a mixture.
pub(super) fn mix(
    parts: Concat,
    lens: &[usize],
    weights: &MixtureWeights,
    (stop, seed): (StopCriteria, u64),
) -> Result<Subset> {
    let order = MixtureSampler::new(lens, weights, stop, seed)?.order(0)?;
    Ok(Subset::selected(Arc::new(parts), Mixed(order)))
}
