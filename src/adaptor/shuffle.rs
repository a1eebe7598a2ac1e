//! [`Shuffled`]: a fixed random order, computed instead of stored.

use crate::dataset::Selection;
use crate::rng::Permutation;

/// All samples, in the order determined by a seed.
pub(super) struct Shuffled(Permutation);

impl Shuffled {
    /// Returns the order of `all` samples.
    pub(super) fn new(all: usize, seed: u64) -> Self {
        Self(Permutation::new(all as u64, seed, 0))
    }
}

impl Selection for Shuffled {
    fn len(&self) -> usize {
        self.0.len() as usize
    }

    fn index_at(&self, place: usize) -> usize {
        self.0.index_at(place as u64) as usize
    }
}
