//! [`ClassSampler`]: the samples of selected classes.

use std::sync::Arc;

use super::{ClassIndex, EpochOrder, Sampler, Shuffling, check_positions};
use crate::error::{Error, Result};
use crate::rng::{BulkPermutation, Permutation, Purpose, digest};

/// Yields every sample of the given classes once: class by class in the given order, or all of them shuffled.
///
/// Takes no memory in addition to the index, which samplers share. A position takes tens of nanoseconds.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::{ClassIndex, ClassSampler, Sampler, Shuffling};
///
/// let index = Arc::new(ClassIndex::new(&[0, 1, 0, 2, 1])?);
/// let order = ClassSampler::new(index, vec![2, 0], Shuffling::Off)?.order(0)?;
/// assert_eq!((0..order.len()).map(|position| order.index_at(position)).collect::<Vec<_>>(), [3, 0, 2]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClassSampler {
    part: Arc<Part>,
    shuffling: Shuffling,
}

#[derive(Debug)]
struct Part {
    index: Arc<ClassIndex>,
    classes: Vec<usize>,
    /// For each run of consecutive classes in the index: the number of samples up to its end, and the offset from a
    /// position in this part to the position in the index (wrapping below zero).
    runs: Vec<(usize, usize)>,
}

impl ClassSampler {
    /// Returns the samples of `classes`, which are positions in [`ClassIndex::classes`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such class, or one occurs twice.
    pub fn new(index: Arc<ClassIndex>, classes: Vec<usize>, shuffling: Shuffling) -> Result<Self> {
        let invalid = |reason| Err(Error::invalid("classes", reason));
        let known = index.classes().len();
        if let Some(class) = classes.iter().find(|&&class| class >= known) {
            return invalid(format!("expected classes from 0 to below {known}, got {class}"));
        }
        let mut sorted = classes.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return invalid(format!("expected each class once, got {} twice", index.classes()[pair[0]]));
        }
        let mut end = 0;
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &class in &classes {
            let further = index.start_of(class).wrapping_sub(end);
            end += index.count(class);
            match runs.last_mut() {
                Some(run) if run.1 == further => run.0 = end,
                _ => runs.push((end, further)),
            }
        }
        Ok(Self { part: Arc::new(Part { index, classes, runs }), shuffling })
    }
}

impl Sampler for ClassSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        let part = Arc::clone(&self.part);
        let permutation = match self.shuffling {
            Shuffling::Off => None,
            Shuffling::Seeded(seed) => {
                // Keyed by the labels: loaders that read two classes in parallel have unrelated orders, and adding a
                // class leaves the orders of the others unchanged.
                let labels: Vec<u64> = part.classes.iter().map(|&class| part.index.classes()[class] as u64).collect();
                let key = (seed, epoch);
                let order = Permutation::for_purpose(Purpose::ClassSamples, part.len() as u64, key, &labels);
                Some(BulkPermutation::new(order))
            }
        };
        Ok(Box::new(ClassOrder { part, permutation }))
    }

    fn identity(&self) -> String {
        let Part { index, classes, .. } = &*self.part;
        let digest = digest(classes.iter().flat_map(|&class| index.words_of(class)));
        let (len, count) = (self.part.len(), classes.len());
        format!("ClassSampler(len={len}, classes={count}, samples={digest:016x}, shuffling={:?})", self.shuffling)
    }
}

impl Part {
    fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.0)
    }

    /// Replaces places in this part with the samples at those places.
    fn look_up(&self, places: &mut [usize]) {
        if let [(_, further)] = self.runs[..] {
            places.iter_mut().for_each(|place| *place = place.wrapping_add(further));
        } else {
            for place in &mut *places {
                let run = self.runs.partition_point(|&(end, _)| end <= *place);
                *place = place.wrapping_add(self.runs[run].1);
            }
        }
        self.index.look_up(places);
    }
}

struct ClassOrder {
    part: Arc<Part>,
    permutation: Option<BulkPermutation>,
}

impl EpochOrder for ClassOrder {
    fn len(&self) -> usize {
        self.part.len()
    }

    fn index_at(&self, position: usize) -> usize {
        let mut index = [0];
        self.indices_by(position, 1, &mut index);
        index[0]
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        check_positions(start, step, into.len(), self.len());
        match &self.permutation {
            Some(order) => order.indices(start as u64, step as u64, into),
            None => into.iter_mut().enumerate().for_each(|(place, index)| *index = start + place * step),
        }
        self.part.look_up(into);
    }
}
