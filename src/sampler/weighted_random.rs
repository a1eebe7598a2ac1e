//! [`WeightedRandomSampler`]: indices drawn in proportion to weights.

use std::sync::Arc;

use super::alias_table::AliasTable;
use super::{EpochOrder, ExplicitOrder, Replacement, Sampler, check_positions};
use crate::error::{Error, Result};
use crate::rng::{Draws, digest, exponential};

/// Draws `num_samples` indices an epoch, each in proportion to its weight, with or without replacement: what torch's
/// `WeightedRandomSampler` promises, for up to 2^32 weights.
///
/// With replacement the draws are computed: any position costs some nanoseconds, their table 8 bytes a
/// weight (the alias method of Walker, ACM TOMS 3, 1977), and an epoch nothing. Without replacement an epoch's order is made when it starts and takes 8 bytes a draw. Its
/// law is that of `torch.multinomial`: each draw is in proportion to the weights of what has not been drawn.
///
/// # Example
/// ```
/// use sluicegate::{Replacement, Sampler, WeightedRandomSampler};
///
/// let sampler = WeightedRandomSampler::new([0.0, 1.0, 3.0], 1000, Replacement::With, 7)?;
/// let order = sampler.order(0)?;
/// let threes = (0..order.len()).filter(|&position| order.index_at(position) == 2).count();
/// assert!((700..800).contains(&threes));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightedRandomSampler {
    drawing: Drawing,
    num_samples: usize,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Drawing {
    Independent(Arc<AliasTable>),
    Distinct { table: Arc<AliasTable>, weights: Arc<[f64]> },
}

impl WeightedRandomSampler {
    /// A sampler over as many samples as there are weights, which need not sum to one. Every seed is legal.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a weight is negative, infinite or not a number, when all are zero or there are more
    /// than 2^32, or, without replacement, when fewer than `num_samples` are positive.
    pub fn new<W>(
        weights: impl IntoIterator<Item = W>,
        num_samples: usize,
        replacement: Replacement,
        seed: u64,
    ) -> Result<Self>
    where
        W: Into<f64>,
    {
        Self::try_new(weights.into_iter().map(|weight| Ok(weight.into())), num_samples, replacement, seed)
    }

    /// As [`new`](Self::new), for weights whose reading can fail.
    ///
    /// # Errors
    /// As `new`, and those of the iterator.
    pub fn try_new(
        weights: impl IntoIterator<Item = Result<f64>>,
        num_samples: usize,
        replacement: Replacement,
        seed: u64,
    ) -> Result<Self> {
        let weights = weights.into_iter();
        let drawing = match replacement {
            Replacement::With => Drawing::Independent(Arc::new(AliasTable::new(weights)?)),
            Replacement::Without => {
                let weights: Vec<f64> = weights.collect::<Result<_>>()?;
                let table = AliasTable::new(weights.iter().map(|&weight| Ok(weight)))?;
                let possible = weights.iter().filter(|weight| **weight > 0.0).count();
                if num_samples > possible {
                    return Err(Error::InvalidArgument {
                        argument: "num_samples",
                        reason: format!(
                            "{num_samples} samples can't be drawn without replacement: of {} weights {possible} are \
                             positive",
                            weights.len()
                        ),
                    });
                }
                Drawing::Distinct { table: Arc::new(table), weights: weights.into() }
            }
        };
        Ok(WeightedRandomSampler { drawing, num_samples, seed })
    }
}

impl Sampler for WeightedRandomSampler {
    fn order(&self, epoch: u64) -> Result<Box<dyn EpochOrder>> {
        let draws = Draws::new(self.seed, epoch);
        Ok(match &self.drawing {
            Drawing::Independent(table) => {
                Box::new(IndependentOrder { table: Arc::clone(table), draws, num_samples: self.num_samples })
            }
            Drawing::Distinct { table, weights } => {
                let race = Draws::race(self.seed, epoch);
                Box::new(ExplicitOrder::new(distinct(table, weights, self.num_samples, draws, race)?))
            }
        })
    }

    fn identity(&self) -> String {
        let (replacement, len, weights) = match &self.drawing {
            Drawing::Independent(table) => (Replacement::With, table.len(), table.digest()),
            // Of the weights themselves, by which what is left is drawn: a table rounds them.
            Drawing::Distinct { weights, .. } => {
                (Replacement::Without, weights.len(), digest(weights.iter().map(|weight| weight.to_bits())))
            }
        };
        let (num_samples, seed) = (self.num_samples, self.seed);
        format!(
            "WeightedRandomSampler(len={len}, weights={weights:016x}, num_samples={num_samples}, \
             replacement={replacement:?}, seed={seed})"
        )
    }
}

struct IndependentOrder {
    table: Arc<AliasTable>,
    draws: Draws,
    num_samples: usize,
}

impl EpochOrder for IndependentOrder {
    fn len(&self) -> usize {
        self.num_samples
    }

    fn index_at(&self, position: usize) -> usize {
        assert!(position < self.num_samples, "position {position} of an order of {} indices", self.num_samples);
        self.table.index_of(self.draws.word_at(position as u64))
    }

    fn indices_by(&self, start: usize, step: usize, into: &mut [usize]) {
        check_positions(start, step, into.len(), self.num_samples);
        let positions = (0..into.len()).map(|place| (start + place * step) as u64);
        self.table.indices_of(positions.map(|position| self.draws.word_at(position)), into);
    }
}

/// How many draws are made before it is asked whether they still find something new.
const DRAWS_AT_ONCE: usize = 1024;

/// `num_samples` different indices: each in proportion to the weights of those that are left.
///
/// First by drawing with replacement and passing over what was drawn before, which is that law by definition, and cheap
/// until most draws find nothing new. From then on, for what is left, as a race: each index arrives after an exponential
/// time whose rate is its weight, and the order of arrival has the same law (Efraimidis and Spirakis, "Weighted random
/// sampling with a reservoir", Information Processing Letters 97, 2006). That it is switched on a count of what was drawn
/// changes nothing: whatever was drawn, the rest follows the law of the rest.
fn distinct(table: &AliasTable, weights: &[f64], num_samples: usize, draws: Draws, race: Draws) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = Vec::new();
    // Room for one more: what was drawn before is written too, and written over.
    order.try_reserve_exact(num_samples + 1).map_err(|refusal| Error::InvalidArgument {
        argument: "num_samples",
        reason: format!("no memory for an order of {num_samples} indices ({refusal})"),
    })?;
    order.resize(num_samples + 1, 0);
    let mut is_drawn = vec![0_u64; weights.len().div_ceil(64)];
    let mut drawn = [0; DRAWS_AT_ONCE];
    let (mut position, mut found) = (0, 0);
    while found < num_samples {
        let positions = position..position + DRAWS_AT_ONCE as u64;
        position = positions.end;
        table.indices_of(positions.map(|position| draws.word_at(position)), &mut drawn);
        let before = found;
        for &index in &drawn {
            let (word, bit) = (&mut is_drawn[index / 64], index % 64);
            let is_new = *word >> bit & 1 == 0;
            *word |= 1 << bit;
            order[found] = index;
            found = (found + usize::from(is_new)).min(num_samples);
        }
        if found - before < DRAWS_AT_ONCE / 4 {
            break;
        }
    }
    order.truncate(found);
    let missing = num_samples - order.len();
    if missing > 0 {
        let left = (0..weights.len()).filter(|index| is_drawn[index / 64] >> (index % 64) & 1 == 0);
        let arrival = |index: usize| exponential(race.word_at(index as u64)) / weights[index];
        let mut arrivals: Vec<(f64, usize)> =
            left.filter(|&index| weights[index] > 0.0).map(|index| (arrival(index), index)).collect();
        let earlier = |one: &(f64, usize), other: &(f64, usize)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1));
        if missing < arrivals.len() {
            arrivals.select_nth_unstable_by(missing, earlier);
            arrivals.truncate(missing);
        }
        arrivals.sort_unstable_by(earlier);
        order.extend(arrivals.into_iter().map(|(_, index)| index));
    }
    Ok(order)
}
