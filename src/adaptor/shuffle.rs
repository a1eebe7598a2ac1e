//! `shuffle`: a fixed random order, computed and not stored.

use std::sync::Arc;

use crate::dataset::{Dataset, Selection, Subset};
use crate::rng::Permutation;

struct Shuffled(Permutation);

impl Selection for Shuffled {
    fn len(&self) -> usize {
        self.0.len() as usize
    }

    fn index_at(&self, place: usize) -> usize {
        self.0.index_at(place as u64) as usize
    }
}

/// The samples of `dataset` in the order of `seed`.
pub(super) fn shuffle(dataset: Arc<dyn Dataset>, seed: u64) -> Subset {
    let order = Permutation::new(dataset.len() as u64, seed, 0);
    Subset::selected(dataset, Shuffled(order))
}
