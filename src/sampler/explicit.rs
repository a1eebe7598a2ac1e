//! [`ExplicitOrder`]: an order given as a list.

use super::{EpochBatches, EpochOrder};

/// An order that is held in memory: 8 bytes per index.
///
/// # Example
/// ```
/// use sluicegate::internal::ExplicitOrder;
/// use sluicegate::EpochOrder;
///
/// assert_eq!(ExplicitOrder::new(vec![4, 2]).index_at(1), 2);
/// ```
#[derive(Clone, Debug)]
pub struct ExplicitOrder {
    indices: Vec<usize>,
    /// Where each batch ends, if the order consists of batches.
    ends: Vec<usize>,
}

impl ExplicitOrder {
    /// Returns the order that reads `indices` one after another.
    pub fn new(indices: Vec<usize>) -> Self {
        ExplicitOrder { indices, ends: Vec::new() }
    }

    /// Returns consecutive batches of these sizes.
    ///
    /// # Panics
    /// If the sizes do not add up to the number of indices.
    pub fn in_batches(indices: Vec<usize>, sizes: &[usize]) -> Self {
        let ends: Vec<usize> = sizes
            .iter()
            .scan(0, |end, size| {
                *end += size;
                Some(*end)
            })
            .collect();
        assert_eq!(ends.last().copied().unwrap_or(0), indices.len(), "the batches hold all indices");
        ExplicitOrder { indices, ends }
    }
}

impl EpochOrder for ExplicitOrder {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn index_at(&self, position: usize) -> usize {
        self.indices[position]
    }

    fn indices(&self, start: usize, into: &mut [usize]) {
        into.copy_from_slice(&self.indices[start..start + into.len()]);
    }
}

impl EpochBatches for ExplicitOrder {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn indices(&self, batch_in_epoch: usize, into: &mut Vec<usize>) {
        let start = if batch_in_epoch == 0 { 0 } else { self.ends[batch_in_epoch - 1] };
        into.clear();
        into.extend_from_slice(&self.indices[start..self.ends[batch_in_epoch]]);
    }
}
