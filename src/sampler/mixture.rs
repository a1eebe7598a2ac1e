//! [`MixtureSampler`]: several concatenated datasets, read in proportion to weights.

use std::sync::{Arc, Mutex};

use super::mixture_plan::{MixturePlan, Stretch};
use super::mixture_weights::{MixtureWeights, StopCriteria};
use super::{EpochOrder, Sampler};
use crate::error::{Error, Result};
use crate::rng::{PermutationSeries, Series};

/// Reads the parts of a concatenation in proportion to weights, which may change during an epoch. Each part has its own
/// random order, which is redrawn whenever the part restarts.
///
/// How often each part occurs up to a position follows from a formula, and is within one or two of what the weights
/// require. Within every block of 1024 positions the parts are shuffled. So computing the index at any position takes a
/// fraction of a microsecond, however long the epoch is, and an epoch has the same length for every seed and epoch
/// number.
///
/// # Example
/// ```
/// use sluicegate::{MixtureSampler, MixtureWeights, Sampler, StopCriteria};
///
/// // Parts of 1000 and of 10 samples, three samples of the first to one of the second.
/// let weights = MixtureWeights::constant([3.0, 1.0]);
/// let sampler = MixtureSampler::new(&[1000, 10], &weights, StopCriteria::CycleUntilAllDatasetsExhausted, 7)?;
/// let order = sampler.order(0)?;
/// let small = (0..400).filter(|&position| order.index_at(position) >= 1000).count();
/// assert!((90..110).contains(&small));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MixtureSampler {
    plan: Arc<MixturePlan>,
    seed: u64,
}

impl MixtureSampler {
    /// Returns a mixture of parts with these lengths, whose indices are consecutive as in a concatenation. Every seed
    /// is valid.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a weight is negative, infinite, or not a number, the number of weights differs
    /// from the number of parts, all weights are zero at some breakpoint, breakpoints are not ascending, an empty part
    /// has a weight, or the epoch would never end.
    pub fn new(lens: &[usize], weights: &MixtureWeights, stop: StopCriteria, seed: u64) -> Result<Self> {
        Ok(MixtureSampler { plan: Arc::new(MixturePlan::new(lens, weights, stop)?), seed })
    }

    /// Ends epochs after `num_samples`, unless they are shorter anyway.
    pub fn with_num_samples(self, num_samples: usize) -> Self {
        MixtureSampler { plan: Arc::new(self.plan.cut_to(num_samples as u64)), ..self }
    }

    /// Returns how many samples of each part an epoch has.
    pub fn samples_per_part(&self) -> Vec<usize> {
        self.plan.counts_at(self.plan.len()).into_iter().map(|count| count as usize).collect()
    }
}

/// Number of positions in a block within which parts are shuffled: about the size of one or a few batches, so that the
/// proportions hold in every range that could matter to a model.
const BLOCK: u64 = 1024;

impl Sampler for MixtureSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        if self.plan.len() > usize::MAX as u64 {
            return Err(Error::invalid("num_samples", "an epoch has more positions than can be counted"));
        }
        let of_part = |part| PermutationSeries::new(Series::Part(part as u64), self.seed, epoch);
        Ok(Box::new(MixtureOrder {
            plan: Arc::clone(&self.plan),
            blocks: PermutationSeries::new(Series::Mixture, self.seed, epoch),
            parts: (0..self.plan.lens().len()).map(of_part).collect(),
            last: Mutex::new(None),
        }))
    }

    fn identity(&self) -> String {
        let (parts, len, digest) = (self.plan.lens().len(), self.plan.len(), self.plan.digest());
        format!("MixtureSampler(parts={parts}, len={len}, plan={digest:016x}, seed={})", self.seed)
    }
}

struct MixtureOrder {
    plan: Arc<MixturePlan>,
    blocks: PermutationSeries,
    parts: Vec<PermutationSeries>,
    /// The block that was read last, because positions are mostly read in ascending order. No thread ever waits for
    /// this lock.
    last: Mutex<Option<Arc<Block>>>,
}

/// A block of positions: its start, its number of positions, and how often each part occurred before it and up to its
/// end.
struct Block {
    start: u64,
    len: u64,
    before: Vec<u64>,
    after: Vec<u64>,
    /// The indices of all its samples, part after part, if many of them were requested.
    samples: Option<Vec<usize>>,
}

/// A block is computed whole when at least one in this many of its positions is requested.
const WORTH: usize = 4;

impl MixtureOrder {
    fn block_of(&self, position: u64) -> Arc<Block> {
        let len = self.plan.len();
        assert!(position < len, "position {position} of an order of {len} indices");
        // If the lock is held by another thread, or was held when this process was forked, the only cost is time.
        if let Ok(last) = self.last.try_lock()
            && let Some(block) = &*last
            && (block.start..block.start + block.len).contains(&position)
        {
            return Arc::clone(block);
        }
        let Stretch { start, end } = self.plan.stretch_of(position);
        // Blocks restart at every range of constant weights.
        let start = start + (position - start) / BLOCK * BLOCK;
        let end = end.min(start + BLOCK);
        let (before, after) = (self.plan.counts_at(start), self.plan.counts_at(end));
        self.remember(Block { start, len: end - start, before, after, samples: None })
    }

    /// Stores and returns the block.
    fn remember(&self, block: Block) -> Arc<Block> {
        let block = Arc::new(block);
        if let Ok(mut last) = self.last.try_lock() {
            *last = Some(Arc::clone(&block));
        }
        block
    }

    /// Returns the index of the sample at `place` in the block, whose samples are listed part by part.
    fn index_of(&self, block: &Block, mut place: u64) -> u64 {
        let mut first = 0;
        for (part, &len) in self.plan.lens().iter().enumerate() {
            let count = block.after[part] - block.before[part];
            if place < count {
                let ordinal = block.before[part] + place;
                return first + self.parts[part].at(ordinal / len, len).index_at(ordinal % len);
            }
            place -= count;
            first += len;
        }
        unreachable!("the parts of a block make up its length")
    }

    /// Returns [`index_of`](Self::index_of) for all places of the block: for each part, a range of its order.
    fn samples_of(&self, block: &Block) -> Vec<usize> {
        let mut samples = vec![0; block.len as usize];
        let (mut rest, mut first) = (&mut samples[..], 0);
        for (part, &len) in self.plan.lens().iter().enumerate() {
            let (mut ordinal, after) = (block.before[part], block.after[part]);
            while ordinal < after {
                let (cycle, start) = (ordinal / len, ordinal % len);
                let count = (len - start).min(after - ordinal);
                let (now, later) = rest.split_at_mut(count as usize);
                self.parts[part].at(cycle, len).indices(start, 1, now);
                now.iter_mut().for_each(|index| *index += first as usize);
                (rest, ordinal) = (later, ordinal + count);
            }
            first += len;
        }
        samples
    }
}

impl EpochOrder for MixtureOrder {
    fn len(&self) -> usize {
        self.plan.len() as usize
    }

    fn index_at(&self, position: usize) -> usize {
        let block = self.block_of(position as u64);
        let place = self.blocks.at(block.start, block.len).index_at(position as u64 - block.start);
        self.index_of(&block, place) as usize
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        let (mut position, step) = (start as u64, step as u64);
        let mut rest = into;
        while !rest.is_empty() {
            let mut block = self.block_of(position);
            let in_block = position - block.start;
            let count = (block.len - in_block).div_ceil(step.max(1)).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(count as usize);
            self.blocks.at(block.start, block.len).indices(in_block, step, now);
            if block.samples.is_none() && now.len() * WORTH >= block.len as usize {
                let samples = Some(self.samples_of(&block));
                let (before, after) = (block.before.clone(), block.after.clone());
                block = self.remember(Block { start: block.start, len: block.len, before, after, samples });
            }
            match &block.samples {
                Some(samples) => now.iter_mut().for_each(|place| *place = samples[*place]),
                None => now.iter_mut().for_each(|place| *place = self.index_of(&block, *place as u64) as usize),
            }
            position = position.saturating_add(count.saturating_mul(step));
            rest = later;
        }
    }
}
