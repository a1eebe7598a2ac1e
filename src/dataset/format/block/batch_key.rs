//! [`BatchKey`]: the indices of a batch, by which what was decoded of it is found again.

use std::hash::{Hash, Hasher};

/// The indices of a batch.
///
/// All of them are compared; the hash is one multiplication an index, where the standard one would take as long as copying
/// the samples. Nobody from outside chooses batches to make it collide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dataset::format) struct BatchKey(Vec<usize>);

impl BatchKey {
    pub(in crate::dataset::format) fn of(indices: &[usize]) -> Self {
        Self(indices.to_vec())
    }
}

impl Hash for BatchKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The odd number next to 2^64 divided by the golden ratio: Knuth's multiplicative hash.
        let fold = |hash: u64, &index: &usize| (hash.rotate_left(5) ^ index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state.write_u64(self.0.iter().fold(self.0.len() as u64, fold));
    }
}
