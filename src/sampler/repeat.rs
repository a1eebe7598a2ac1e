//! [`RepeatSampler`]: the indices of another sampler, several times.

use std::sync::Arc;

use super::{EpochOrder, Sampler};
use crate::error::{Error, Result};

/// The indices of another sampler, `times` times per epoch.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{RepeatSampler, Sampler, SequentialSampler};
///
/// let once = Arc::new(SequentialSampler::new(3));
/// let indices = |sampler: RepeatSampler| -> sluicegate::Result<Vec<usize>> {
///     let order = sampler.order(0)?;
///     Ok((0..order.len()).map(|position| order.index_at(position)).collect())
/// };
/// assert_eq!(indices(RepeatSampler::passes(once.clone(), 2))?, [0, 1, 2, 0, 1, 2]);
/// assert_eq!(indices(RepeatSampler::in_a_row(once, 2))?, [0, 0, 1, 1, 2, 2]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone)]
pub struct RepeatSampler {
    sampler: Arc<dyn Sampler>,
    times: usize,
    repetition: Repetition,
    num_samples: Option<usize>,
}

/// The unit of repetition; its names are part of the sampler's identity.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Repetition {
    Passes,
    InARow,
}

impl RepeatSampler {
    /// Returns a sampler that repeats the whole epoch: pass k of epoch e is the sampler's own epoch e * `times` + k, so
    /// each pass has its own order, and no epoch occurs twice.
    pub fn passes(sampler: Arc<dyn Sampler>, times: usize) -> Self {
        RepeatSampler { sampler, times, repetition: Repetition::Passes, num_samples: None }
    }

    /// Returns a sampler that repeats each index immediately after itself: the repeated augmentation of Hoffer et al.,
    /// "Augment your batch", CVPR 2020. Ranks that read in turns get the repetitions of one sample at the same time, as
    /// in torchvision's `RASampler`.
    pub fn in_a_row(sampler: Arc<dyn Sampler>, times: usize) -> Self {
        RepeatSampler { sampler, times, repetition: Repetition::InARow, num_samples: None }
    }

    /// Ends an epoch after `num_samples`, unless it is shorter anyway.
    pub fn with_num_samples(self, num_samples: usize) -> Self {
        RepeatSampler { num_samples: Some(num_samples), ..self }
    }

    fn pass(&self, epoch: u64, pass: u64) -> Result<Box<dyn EpochOrder>> {
        let own_epoch = epoch.checked_mul(self.times as u64).and_then(|first| first.checked_add(pass));
        self.sampler.order(own_epoch.ok_or_else(|| Error::InvalidArgument {
            argument: "epoch",
            reason: format!("epoch {epoch} of {} passes each is too large: passes are counted up to 2^64", self.times),
        })?)
    }

    fn cut(&self, len: Option<usize>) -> Result<usize> {
        let too_long = || Error::InvalidArgument {
            argument: "times",
            reason: format!("an epoch of {} repetitions has more positions than can be counted", self.times),
        };
        match self.num_samples {
            Some(num_samples) => Ok(len.unwrap_or(usize::MAX).min(num_samples)),
            None => len.ok_or_else(too_long),
        }
    }
}

impl Sampler for RepeatSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        if self.repetition == Repetition::InARow {
            let order = self.sampler.order(epoch)?;
            let len = self.cut(order.len().checked_mul(self.times))?;
            return Ok(Box::new(RowsOrder { order, times: self.times, len }));
        }
        let (mut passes, mut ends, mut end) = (Vec::new(), Vec::new(), 0_usize);
        for pass in 0..self.times {
            // Positions after the last sample are never requested.
            if self.num_samples.is_some_and(|num_samples| end >= num_samples) {
                break;
            }
            let order = self.pass(epoch, pass as u64)?;
            end = self.cut(end.checked_add(order.len()))?;
            passes.push(order);
            ends.push(end);
        }
        Ok(Box::new(PassesOrder { passes, ends }))
    }

    fn identity(&self) -> String {
        let RepeatSampler { sampler, times, repetition, num_samples } = self;
        let sampler = sampler.identity();
        match num_samples {
            Some(cut) => format!("RepeatSampler({sampler}, times={times}, {repetition:?}, num_samples={cut})"),
            None => format!("RepeatSampler({sampler}, times={times}, {repetition:?})"),
        }
    }
}

struct PassesOrder {
    passes: Vec<Box<dyn EpochOrder>>,
    /// The end position of each pass.
    ends: Vec<usize>,
}

impl PassesOrder {
    /// Returns the pass that contains a position, and the position where that pass starts.
    fn pass_of(&self, position: usize) -> (usize, usize) {
        let pass = self.ends.partition_point(|end| *end <= position);
        assert!(pass < self.ends.len(), "position {position} of an order of {} indices", self.len());
        (pass, if pass == 0 { 0 } else { self.ends[pass - 1] })
    }
}

impl EpochOrder for PassesOrder {
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn index_at(&self, position: usize) -> usize {
        let (pass, start) = self.pass_of(position);
        self.passes[pass].index_at(position - start)
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        let (mut position, mut rest) = (start, into);
        while !rest.is_empty() {
            let (pass, pass_start) = self.pass_of(position);
            let count = (self.ends[pass] - position).div_ceil(step.max(1)).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            self.passes[pass].indices_by(position - pass_start, step, now);
            position = position.saturating_add(count.saturating_mul(step));
            rest = later;
        }
    }
}

struct RowsOrder {
    order: Box<dyn EpochOrder>,
    times: usize,
    len: usize,
}

impl EpochOrder for RowsOrder {
    fn len(&self) -> usize {
        self.len
    }

    fn index_at(&self, position: usize) -> usize {
        assert!(position < self.len, "position {position} of an order of {} indices", self.len);
        self.order.index_at(position / self.times)
    }

    fn indices(&self, start: usize, into: &mut [usize]) {
        let Some(last) = into.len().checked_sub(1) else { return };
        assert!(start + last < self.len, "past an order of {} indices", self.len);
        // Read once and then spread, from the back: each index is written at or after the place where it was read.
        let (first, last) = (start / self.times, (start + last) / self.times);
        self.order.indices(first, &mut into[..=last - first]);
        for place in (0..into.len()).rev() {
            into[place] = into[(start + place) / self.times - first];
        }
    }
}
