//! [`WeightedRandomSampler`]: indices drawn in proportion to weights.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;
use std::vec::IntoIter;

use super::alias_table::AliasTable;
use super::random::Replacement;
use super::{EpochOrder, ExplicitOrder, Sampler, check_positions};
use crate::error::{Error, Result};
use crate::rng::{Draws, digest, exponential};
use crate::watch;

/// Draws `num_samples` indices per epoch, each in proportion to its weight, with or without replacement, like torch's
/// `WeightedRandomSampler`, for up to 2^32 weights.
///
/// With replacement, draws are computed: any position takes a few nanoseconds, the table takes 8 bytes per weight (the
/// alias method of Walker, ACM TOMS 3, 1977), and an epoch takes no preparation. Without replacement, an epoch's order
/// is computed when it starts and takes 8 bytes per draw. Its distribution is that of `torch.multinomial`: each draw is
/// in proportion to the weights of the indices that have not been drawn.
///
/// # Example
/// ```
/// use sluicegate::{Sampler, WeightedRandomSampler};
///
/// let sampler = WeightedRandomSampler::new([0.0, 1.0, 3.0], 1000, 7)?;
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
    Distinct { table: Arc<AliasTable>, weights: Arc<Vec<f64>> },
}

impl WeightedRandomSampler {
    /// Returns a sampler, with replacement, over as many samples as there are weights, which need not sum to one. Every
    /// seed is valid.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a weight is negative, infinite, or not a number, if all are zero, or if there are
    /// more than 2^32.
    pub fn new<W: Into<f64>>(weights: impl IntoIterator<Item = W>, num_samples: usize, seed: u64) -> Result<Self> {
        Self::try_new(weights.into_iter().map(|weight| Ok(weight.into())), num_samples, seed)
    }

    /// Like [`new`](Self::new), for weights whose reading can fail.
    ///
    /// # Errors
    /// Those of `new`, and those of the iterator.
    pub fn try_new(weights: impl IntoIterator<Item = Result<f64>>, num_samples: usize, seed: u64) -> Result<Self> {
        let drawing = Drawing::Independent(Arc::new(AliasTable::new(weights.into_iter())?));
        Ok(WeightedRandomSampler { drawing, num_samples, seed })
    }

    /// Like [`new`](Self::new), without replacement.
    ///
    /// # Errors
    /// Those of `new`; [`Error::InvalidArgument`] if fewer than `num_samples` weights are positive.
    pub fn without_replacement<W: Into<f64>>(
        weights: impl IntoIterator<Item = W>,
        num_samples: usize,
        seed: u64,
    ) -> Result<Self> {
        Self::try_without_replacement(weights.into_iter().map(|weight| Ok(weight.into())), num_samples, seed)
    }

    /// Like [`without_replacement`](Self::without_replacement), for weights whose reading can fail.
    ///
    /// # Errors
    /// Those of `without_replacement`, and those of the iterator.
    pub fn try_without_replacement(
        weights: impl IntoIterator<Item = Result<f64>>,
        num_samples: usize,
        seed: u64,
    ) -> Result<Self> {
        let weights: Vec<f64> = weights.into_iter().collect::<Result<_>>()?;
        let table = AliasTable::new(weights.iter().map(|&weight| Ok(weight)))?;
        let possible = weights.iter().filter(|weight| **weight > 0.0).count();
        if num_samples > possible {
            return Err(Error::invalid(
                "num_samples",
                format!(
                    "can't draw {num_samples} samples without replacement: only {possible} of {} weights are positive",
                    weights.len()
                ),
            ));
        }
        let drawing = Drawing::Distinct { table: Arc::new(table), weights: weights.into() };
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
            // Digest the weights themselves, which determine the later draws: a table rounds them.
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

/// Number of draws after which to check if drawing still finds enough new indices.
const DRAWS_AT_ONCE: usize = 1024;

/// Returns `num_samples` different indices, each drawn in proportion to the weights of those that remain.
///
/// First draws with replacement and skips indices that were drawn before, which has that distribution by definition,
/// and is cheap until most draws find nothing new. From then on, the remaining indices race: each arrives after an
/// exponentially distributed time whose rate is its weight, and the order of arrival has the same distribution
/// (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97, 2006).
/// Switching based on how many indices were drawn is valid: given the drawn indices, both methods draw the remaining
/// ones with the same distribution.
fn distinct(table: &AliasTable, weights: &[f64], num_samples: usize, draws: Draws, race: Draws) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = Vec::new();
    // Room for one more: repeated draws are written too, and then overwritten.
    order.try_reserve_exact(num_samples + 1).map_err(|refusal| {
        Error::invalid("num_samples", format!("no memory for an order of {num_samples} indices ({refusal})"))
    })?;
    order.resize(num_samples + 1, 0);
    let mut is_drawn = vec![0_u64; weights.len().div_ceil(64)];
    let mut drawn = [0; DRAWS_AT_ONCE];
    let (mut position, mut found) = (0, 0);
    while found < num_samples {
        let positions = position..position + DRAWS_AT_ONCE as u64;
        position = positions.end;
        table.indices_of(positions.map(|position| draws.word_at(position)), &mut drawn);
        watch::advance(0)?;
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
        let arrivals = left.filter(|&index| weights[index] > 0.0).map(|index| {
            let arrival = exponential(race.word_at(index as u64)) / weights[index];
            (in_total_order(arrival), index)
        });
        push_earliest(arrivals, missing, &mut order)?;
    }
    Ok(order)
}

/// Maps a number to an integer, so that integers compare as the numbers do under [`f64::total_cmp`].
fn in_total_order(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// Number of arrivals to sort at once, in a few hundredths of a second, because a sort cannot be interrupted.
const SORTED_AT_ONCE: usize = 1 << 19;

/// Pushes the indices of the `count` earliest arrivals, in order; simultaneous arrivals are ordered by index.
fn push_earliest(mut arrivals: impl Iterator<Item = (i64, usize)>, count: usize, into: &mut Vec<usize>) -> Result<()> {
    let mut blocks = Vec::new();
    loop {
        watch::advance(0)?;
        let mut block: Vec<(i64, usize)> = arrivals.by_ref().take(SORTED_AT_ONCE).collect();
        if block.is_empty() {
            break;
        }
        if count < block.len() {
            block.select_nth_unstable(count);
            block.truncate(count);
        }
        block.sort_unstable();
        blocks.push(block.into_iter());
    }
    let next_of =
        |blocks: &mut [IntoIter<(i64, usize)>], block: usize| blocks[block].next().map(|next| Reverse((next, block)));
    let mut first: BinaryHeap<_> = (0..blocks.len()).filter_map(|block| next_of(&mut blocks, block)).collect();
    for place in 0..count {
        if place.is_multiple_of(DRAWS_AT_ONCE) {
            watch::advance(0)?;
        }
        let Some(mut earliest) = first.peek_mut() else { break };
        let Reverse(((_, index), block)) = *earliest;
        into.push(index);
        match next_of(&mut blocks, block) {
            Some(next) => *earliest = next,
            None => drop(PeekMut::pop(earliest)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_of_several_blocks_are_in_order() {
        let len = SORTED_AT_ONCE + 1000;
        let arrival = |index: usize| (in_total_order((index.wrapping_mul(0x9e37_79b9) % 5003) as f64 / 7.0), index);
        let mut all: Vec<(i64, usize)> = (0..len).map(arrival).collect();
        all.sort_unstable();
        for count in [0, 1, 999, 1000, 1001, len - 1, len] {
            let mut found = Vec::new();
            push_earliest((0..len).map(arrival), count, &mut found).unwrap();
            assert!(found.iter().eq(all[..count].iter().map(|(_, index)| index)), "{count}");
        }
    }

    #[test]
    fn numbers_are_in_their_total_order() {
        let numbers = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::MAX, f64::INFINITY, f64::NAN];
        assert!(numbers.map(in_total_order).is_sorted());
    }
}
