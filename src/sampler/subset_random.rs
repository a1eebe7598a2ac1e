//! [`SubsetRandomSampler`]: given indices, in random order.

use std::sync::Arc;

use super::{EpochOrder, RandomSampler, Sampler};
use crate::error::Result;

/// Each of the given indices once, in a pseudorandom order of (seed, epoch): torch's `SubsetRandomSampler`, in the order
/// of seed mode.
///
/// The indices are kept once, in 4 bytes each as long as all are below 2^32, else in 8; an order adds nothing to that.
///
/// # Example
/// ```
/// use sluicegate::{Sampler, SubsetRandomSampler};
///
/// let order = SubsetRandomSampler::new([30, 10, 20], 7).order(0)?;
/// let mut indices: Vec<usize> = (0..3).map(|position| order.index_at(position)).collect();
/// indices.sort();
/// assert_eq!(indices, [10, 20, 30]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SubsetRandomSampler {
    indices: Arc<Indices>,
    places: RandomSampler,
}

#[derive(Debug)]
enum Indices {
    Narrow(Vec<u32>),
    Wide(Vec<usize>),
}

impl SubsetRandomSampler {
    /// A sampler of these indices, which may repeat. Every seed is legal.
    pub fn new(indices: impl IntoIterator<Item = usize>, seed: u64) -> Self {
        let indices: Indices = indices.into_iter().collect();
        let places = RandomSampler::new(indices.len(), seed);
        SubsetRandomSampler { indices: Arc::new(indices), places }
    }
}

impl FromIterator<usize> for Indices {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        let mut indices = indices.into_iter();
        let mut narrow = Vec::with_capacity(indices.size_hint().0);
        while let Some(index) = indices.next() {
            match u32::try_from(index) {
                Ok(index) => narrow.push(index),
                Err(_) => {
                    let before = narrow.into_iter().map(|index| index as usize);
                    return Indices::Wide(before.chain([index]).chain(indices).collect());
                }
            }
        }
        Indices::Narrow(narrow)
    }
}

impl Indices {
    fn len(&self) -> usize {
        match self {
            Indices::Narrow(indices) => indices.len(),
            Indices::Wide(indices) => indices.len(),
        }
    }

    fn at(&self, place: usize) -> usize {
        match self {
            Indices::Narrow(indices) => indices[place] as usize,
            Indices::Wide(indices) => indices[place],
        }
    }

    /// Replaces places by the indices there.
    fn look_up(&self, places: &mut [usize]) {
        match self {
            Indices::Narrow(indices) => places.iter_mut().for_each(|place| *place = indices[*place] as usize),
            Indices::Wide(indices) => places.iter_mut().for_each(|place| *place = indices[*place]),
        }
    }
}

impl Sampler for SubsetRandomSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        Ok(Box::new(SubsetOrder { indices: Arc::clone(&self.indices), places: self.places.order(epoch)? }))
    }
}

struct SubsetOrder {
    indices: Arc<Indices>,
    places: Box<dyn EpochOrder>,
}

impl EpochOrder for SubsetOrder {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn index_at(&self, position: usize) -> usize {
        self.indices.at(self.places.index_at(position))
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        self.places.indices_by(start, step, into);
        self.indices.look_up(into);
    }
}
