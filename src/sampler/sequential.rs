//! [`SequentialSampler`]: every index once, in ascending order.

use super::{EpochOrder, Sampler, check_positions};
use crate::error::Result;

/// Every index once, in ascending order, in every epoch: torch's `SequentialSampler`.
///
/// # Example
/// ```
/// use sluicegate::{Sampler, SequentialSampler};
///
/// let order = SequentialSampler::new(10).order(3)?;
/// assert_eq!(order.index_at(4), 4);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SequentialSampler {
    len: usize,
}

impl SequentialSampler {
    /// Returns a sampler for `len` samples.
    pub fn new(len: usize) -> Self {
        SequentialSampler { len }
    }
}

impl Sampler for SequentialSampler {
    fn order(&self, _epoch: u64) -> Result<Box<dyn EpochOrder>> {
        Ok(Box::new(SequentialOrder { len: self.len }))
    }

    fn identity(&self) -> String {
        format!("SequentialSampler(len={})", self.len)
    }
}

struct SequentialOrder {
    len: usize,
}

impl EpochOrder for SequentialOrder {
    fn len(&self) -> usize {
        self.len
    }

    fn index_at(&self, position: usize) -> usize {
        assert!(position < self.len, "position {position} of an order of {} indices", self.len);
        position
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        check_positions(start, step, into.len(), self.len);
        if step == 1 {
            // Without a multiplication, the compiler vectorizes the loop.
            into.iter_mut().zip(start..).for_each(|(index, position)| *index = position);
            return;
        }
        for (place, index) in into.iter_mut().enumerate() {
            *index = start + place * step;
        }
    }
}
