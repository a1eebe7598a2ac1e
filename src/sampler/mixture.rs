//! [`MixtureSampler`]: several datasets behind one another, read in proportion to weights.

use std::sync::{Arc, Mutex};

use super::mixture_plan::{MixturePlan, Stretch};
use super::{EpochOrder, Sampler};
use crate::error::{Error, Result};
use crate::rng::{PermutationSeries, Series};

/// Reads the parts of a concatenation in proportion to weights, which may change on the way, each part in a random order
/// of its own that is renewed whenever the part starts again.
///
/// How often each part has come up to a position is arithmetic: the nearest whole number to what the weights demand, give
/// or take one or two. Which of the positions it is varies: in every block of 1024 positions the parts are shuffled. So an index at any position costs a fraction of a microsecond, no matter how long the epoch is, and
/// the length of an epoch is the same for every seed and epoch.
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

/// When an epoch of a mixture ends: torchdata's `StopCriteria`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StopCriteria {
    /// With the sample that completes the last of the parts; those that are through earlier start again.
    #[default]
    CycleUntilAllDatasetsExhausted,
    /// When every sample was read, each once; a part that is through leaves its share to the others.
    AllDatasetsExhausted,
    /// With the sample that completes the first of the parts.
    FirstDatasetExhausted,
    /// After this many samples; parts that are through start again.
    CycleForever(usize),
}

/// The weights of a mixture's parts, as they change over the positions of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureWeights {
    pub(super) breakpoints: Vec<(usize, Vec<f64>)>,
    pub(super) course: Course,
}

/// What weights do from one breakpoint to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Course {
    /// They stay, and jump at the next.
    #[default]
    Steps,
    /// They go over evenly, in at most 1024 steps.
    Linear,
}

impl MixtureWeights {
    /// The same weights all the time, one for each part; they need not sum to one.
    pub fn constant(weights: impl Into<Vec<f64>>) -> Self {
        MixtureWeights { breakpoints: vec![(0, weights.into())], course: Course::Steps }
    }

    /// The weights that hold at each of these positions. Before the first they are those of the first, after the last those
    /// of the last.
    pub fn scheduled(breakpoints: Vec<(usize, Vec<f64>)>, course: Course) -> Self {
        MixtureWeights { breakpoints, course }
    }
}

impl MixtureSampler {
    /// A mixture of parts of these lengths, whose indices follow one another as in a concatenation. Every seed is legal.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a weight is negative, infinite or not a number, there is not one for each part, all are
    /// zero at some breakpoint, breakpoints do not ascend, a part without samples has a weight, or the epoch would never end.
    pub fn new(lens: &[usize], weights: &MixtureWeights, stop: StopCriteria, seed: u64) -> Result<Self> {
        Ok(MixtureSampler { plan: Arc::new(MixturePlan::new(lens, weights, stop)?), seed })
    }

    /// Ends epochs after `num_samples`, if they are not shorter anyway.
    pub fn with_num_samples(self, num_samples: usize) -> Self {
        MixtureSampler { plan: Arc::new(self.plan.cut_to(num_samples as u64)), ..self }
    }

    /// How many samples of each part an epoch has.
    pub fn samples_per_part(&self) -> Vec<usize> {
        self.plan.counts_at(self.plan.len()).into_iter().map(|count| count as usize).collect()
    }
}

/// In blocks of so many positions parts are shuffled: about the size of a batch or some, so that the proportions hold in
/// every stretch that a model could tell from another.
const BLOCK: u64 = 1024;

impl Sampler for MixtureSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        if self.plan.len() > usize::MAX as u64 {
            let reason = "an epoch has more positions than can be counted".to_owned();
            return Err(Error::InvalidArgument { argument: "num_samples", reason });
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
    /// The block that was read last: positions are mostly read in ascending order. No thread ever waits for it.
    last: Mutex<Option<Arc<Block>>>,
}

/// A block of positions: where it starts, its number of positions, and how often each part came before it and up to its
/// end.
struct Block {
    start: u64,
    len: u64,
    before: Vec<u64>,
    after: Vec<u64>,
    /// The indices of all its samples, part after part, where many of them were asked for.
    samples: Option<Vec<usize>>,
}

/// A block is computed whole for whoever asks for one position of so many.
const WORTH: usize = 4;

impl MixtureOrder {
    fn block_of(&self, position: u64) -> Arc<Block> {
        let len = self.plan.len();
        assert!(position < len, "position {position} of an order of {len} indices");
        // A lock that another thread holds, or held when this process was forked, only costs time.
        if let Ok(last) = self.last.try_lock()
            && let Some(block) = &*last
            && (block.start..block.start + block.len).contains(&position)
        {
            return Arc::clone(block);
        }
        let Stretch { start, end } = self.plan.stretch_of(position);
        // Blocks begin anew with every stretch of equal weights.
        let start = start + (position - start) / BLOCK * BLOCK;
        let end = end.min(start + BLOCK);
        let (before, after) = (self.plan.counts_at(start), self.plan.counts_at(end));
        self.remember(Block { start, len: end - start, before, after, samples: None })
    }

    /// The block as it is from now on.
    fn remember(&self, block: Block) -> Arc<Block> {
        let block = Arc::new(block);
        if let Ok(mut last) = self.last.try_lock() {
            *last = Some(Arc::clone(&block));
        }
        block
    }

    /// The index of the sample that has `place` among those of the block, part after part.
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

    /// What [`index_of`](Self::index_of) says of every place of the block: of each part a stretch of its own order.
    fn samples_of(&self, block: &Block) -> Vec<usize> {
        let mut samples = vec![0; block.len as usize];
        let (mut rest, mut first) = (&mut samples[..], 0);
        for (part, &len) in self.plan.lens().iter().enumerate() {
            let (mut ordinal, after) = (block.before[part], block.after[part]);
            while ordinal < after {
                let (cycle, start) = (ordinal / len, ordinal % len);
                let here = (len - start).min(after - ordinal);
                let (now, later) = rest.split_at_mut(here as usize);
                self.parts[part].at(cycle, len).indices(start, 1, now);
                now.iter_mut().for_each(|index| *index += first as usize);
                (rest, ordinal) = (later, ordinal + here);
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
            let here = (block.len - in_block).div_ceil(step.max(1)).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(here as usize);
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
            position = position.saturating_add(here.saturating_mul(step));
            rest = later;
        }
    }
}
