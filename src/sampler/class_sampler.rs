//! [`ClassSampler`]: the samples of some classes, and no others.

use std::sync::Arc;

use super::{ClassIndex, EpochOrder, Sampler, Shuffling};
use crate::error::{Error, Result};
use crate::rng::{Permutation, Purpose, digest};

/// Every sample of the given classes once: class by class in the sequence given, or all of them shuffled.
///
/// Takes no memory beside the index, which samplers share. A position costs tens of nanoseconds.
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
    /// How many samples there are up to the end of each class.
    ends: Vec<usize>,
}

impl ClassSampler {
    /// The samples of `classes`, which are places in [`ClassIndex::classes`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is no such class, or one comes twice.
    pub fn new(index: Arc<ClassIndex>, classes: Vec<usize>, shuffling: Shuffling) -> Result<Self> {
        let invalid = |reason| Err(Error::InvalidArgument { argument: "classes", reason });
        let known = index.classes().len();
        if let Some(class) = classes.iter().find(|&&class| class >= known) {
            return invalid(format!("class {class} of {known} classes does not exist"));
        }
        let mut sorted = classes.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return invalid(format!("class {} comes twice: its samples would too", index.classes()[pair[0]]));
        }
        let mut end = 0;
        let ends = classes.iter().map(|&class| {
            end += index.count(class);
            end
        });
        let ends = ends.collect();
        Ok(Self { part: Arc::new(Part { index, classes, ends }), shuffling })
    }
}

impl Sampler for ClassSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        let part = Arc::clone(&self.part);
        let permutation = match self.shuffling {
            Shuffling::Off => None,
            Shuffling::Seeded(seed) => {
                // By the labels, so that loaders of two classes that are read side by side do not walk in step, and a
                // class that is added later leaves the orders of the others as they are.
                let labels: Vec<u64> = part.classes.iter().map(|&class| part.index.classes()[class] as u64).collect();
                Some(Permutation::for_purpose(Purpose::ClassSamples, part.len() as u64, (seed, epoch), &labels))
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
        self.ends.last().copied().unwrap_or(0)
    }

    fn sample_at(&self, place: usize) -> usize {
        let at = self.ends.partition_point(|&end| end <= place);
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        self.index.sample_at(self.classes[at], place - start)
    }
}

struct ClassOrder {
    part: Arc<Part>,
    permutation: Option<Permutation>,
}

impl EpochOrder for ClassOrder {
    fn len(&self) -> usize {
        self.part.len()
    }

    fn index_at(&self, position: usize) -> usize {
        let len = self.len();
        assert!(position < len, "position {position} of an order of {len} indices");
        let place = self.permutation.as_ref().map_or(position, |order| order.index_at(position as u64) as usize);
        self.part.sample_at(place)
    }
}
