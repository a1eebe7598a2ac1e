//! [`BatchKey`]: the indices of a batch, as the key of what was decoded for it.

use std::hash::{Hash, Hasher};

/// The indices of a batch.
///
/// Keys are compared in full. The hash takes one multiplication per index; the standard one would take as long as
/// copying the samples. Attackers do not choose batches, so deliberate collisions need not be prevented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchKey(Vec<usize>);

impl BatchKey {
    pub(crate) fn of(indices: &[usize]) -> Self {
        Self(indices.to_vec())
    }
}

impl Hash for BatchKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The odd number nearest to 2^64 divided by the golden ratio: Knuth's multiplicative hash.
        let fold = |hash: u64, &index: &usize| (hash.rotate_left(5) ^ index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state.write_u64(self.0.iter().fold(self.0.len() as u64, fold));
    }
}
