//! [`AliasTable`]: weighted draws in constant time.

use std::hint::select_unpredictable;

use crate::error::{Error, Result};
use crate::rng::{below, digest};
use crate::watch;

/// Draws each of n indices in proportion to its weight, in constant time and 8 bytes per index.
///
/// The indices are columns of equal height. Up to its threshold a column belongs to its own index, and above it to
/// another one, its alias. A draw picks a column, and a height in it.
///
/// Source: Walker, "An efficient method for generating discrete random variables with general distributions", ACM TOMS
/// 3 (1977). The table is built by the sweep of Hübschle-Schneider and Sanders, "Parallel weighted random sampling",
/// ESA 2019: two cursors that only move forward, so the weights are read in order, whereas Vose's lists of light and
/// heavy columns jump around in memory. The table replaces the weights in place, and needs no other memory.
///
/// The relative error of a probability is at most 2^-23: thresholds are rounded to 32 bits, each in the direction that
/// cancels the accumulated rounding error, so errors never add up.
#[derive(Debug)]
pub(super) struct AliasTable {
    columns: Vec<Column>,
}

/// While the table is being built, the bits of a weight; afterwards a threshold (upper half) and an alias (lower half).
/// The sign of the threshold, which no weight has, marks finished columns.
type Column = u64;

const DONE: u64 = 1 << 63;

/// Number of weights between checks for cancellation.
const BLOCK: usize = 1 << 13;

/// An alias has 32 bits.
const MAX_WEIGHTS: u64 = 1 << 32;

impl AliasTable {
    /// Builds a table over these weights.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if one is negative, infinite, or not a number, if all are zero, if there are more
    /// than 2^32, or if there is no memory for them; an error of the iterator.
    pub(super) fn new(weights: impl Iterator<Item = Result<f64>>) -> Result<Self> {
        let columns = columns_of(weights)?;
        let total = total_of(&columns)?;
        if total <= 0.0 {
            let reason = match columns.len() {
                0 => "expected at least one weight, got none".to_owned(),
                len => format!("all {len} weights are zero, but at least one must be positive"),
            };
            return Err(Error::invalid("weights", reason));
        }
        if total == f64::INFINITY {
            return Err(Error::invalid("weights", "their sum is infinite; divide all of them by the largest"));
        }
        if columns.len() as u64 > MAX_WEIGHTS {
            let reason =
                format!("expected at most 2^32 weights, got {}; weight groups of samples instead", columns.len());
            return Err(Error::invalid("weights", reason));
        }
        let mut table = AliasTable { columns };
        table.fill(total)?;
        Ok(table)
    }

    /// Returns the index that 64 random bits draw.
    #[inline]
    pub(super) fn index_of(&self, word: u64) -> usize {
        let (column, height) = below(self.columns.len() as u64, word);
        choice(column, height, self.columns[column as usize])
    }

    /// Writes the index that each of these words draws.
    pub(super) fn indices_of(&self, words: impl Iterator<Item = u64>, into: &mut [usize]) {
        for (index, word) in into.iter_mut().zip(words) {
            *index = self.index_of(word);
        }
    }

    /// Returns the number of weights.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns a digest of the weights; equal weights make equal tables.
    pub(super) fn digest(&self) -> u64 {
        digest(self.columns.iter().copied())
    }

    fn fill(&mut self, total: f64) -> Result<()> {
        let len = self.columns.len();
        // Weights are scaled so that a column has height 1. Dividing first avoids overflow.
        let scale = |weight: f64| weight / total * len as f64;
        let weight_at = |columns: &[Column], place: usize| scale(f64::from_bits(columns[place]));
        let mean = total / len as f64;
        let is_heavy =
            |columns: &[Column], place: usize| columns[place] & DONE == 0 && f64::from_bits(columns[place]) > mean;
        let next_heavy = |columns: &[Column], from: usize| (from..len).find(|&place| is_heavy(columns, place));

        watch::expect(len);
        let mut rounding = Rounding::default();
        let mut heavy = next_heavy(&self.columns, 0);
        // The remaining weight of the heavy one: a sum of many terms, so the rounding errors of the additions are kept.
        let mut left = Sum::new(heavy.map_or(0.0, |heavy| weight_at(&self.columns, heavy)));
        let mut last_heavy = heavy;
        for light in 0..len {
            if light % BLOCK == 0 {
                watch::advance(BLOCK.min(len - light))?;
            }
            if self.columns[light] & DONE != 0 || heavy == Some(light) || is_heavy(&self.columns, light) {
                continue;
            }
            // A heavy index with at most one column left becomes a column, filled up by the next heavy index.
            while let Some(full) = heavy
                && left.value() <= 1.0
            {
                let Some(next) = next_heavy(&self.columns, full + 1) else { break };
                let threshold = rounding.round(left.value());
                left.add(weight_at(&self.columns, next));
                left.add(-1.0);
                self.columns[full] = done(threshold, next);
                heavy = Some(next);
                last_heavy = heavy;
            }
            let weight = weight_at(&self.columns, light);
            self.columns[light] = match last_heavy {
                Some(alias) => {
                    left.add(weight - 1.0);
                    done(rounding.round(weight), alias)
                }
                // No weight is above the mean, so all are equal to it.
                None => done(1.0, light),
            };
        }
        // No light column remains. Each heavy index keeps its remaining weight, and the next one fills its column up.
        while let Some(full) = heavy {
            heavy = next_heavy(&self.columns, full + 1);
            self.columns[full] = match heavy {
                Some(next) if left.value() < 1.0 => {
                    let threshold = rounding.round(left.value());
                    left.add(weight_at(&self.columns, next));
                    left.add(-1.0);
                    done(threshold, next)
                }
                Some(next) => {
                    left = Sum::new(weight_at(&self.columns, next));
                    done(1.0, full)
                }
                None => done(1.0, full),
            };
        }
        Ok(())
    }
}

/// Checks the weights, and returns their bits.
fn columns_of(weights: impl Iterator<Item = Result<f64>>) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    let expected = weights.size_hint().0;
    columns.try_reserve_exact(expected).map_err(|refusal| {
        Error::invalid("weights", format!("no memory for a table of {expected} weights, 8 bytes each ({refusal})"))
    })?;
    for weight in weights {
        let weight = weight?;
        if columns.len().is_multiple_of(BLOCK) {
            watch::advance(0)?;
        }
        if !(0.0..f64::INFINITY).contains(&weight) {
            return Err(Error::invalid(
                "weights",
                format!("the weight of index {} must be finite and not negative, got {weight}", columns.len()),
            ));
        }
        // Normalizes -0, whose sign bit would mark the column as finished.
        columns.push(weight.abs().to_bits());
    }
    Ok(columns)
}

/// Returns the sum of the weights, or infinity if it overflows.
fn total_of(columns: &[Column]) -> Result<f64> {
    let mut total = Sum::new(0.0);
    for block in columns.chunks(BLOCK) {
        watch::advance(0)?;
        block.iter().for_each(|&column| total.add(f64::from_bits(column)));
    }
    Ok(if total.sum.is_finite() { total.value() } else { f64::INFINITY })
}

fn done(threshold: f32, alias: usize) -> Column {
    DONE | u64::from(threshold.to_bits()) << u32::BITS | u64::from(alias as u32)
}

/// Returns the index that owns a column at a height. Branchless: a branch would be mispredicted every other time and
/// delay the look-ups of later draws.
#[inline]
fn choice(column: u64, height: u64, content: Column) -> usize {
    let is_own = height_of(height) < f64::from(threshold_of(content));
    select_unpredictable(is_own, column as usize, (content as u32) as usize)
}

#[inline]
fn threshold_of(content: Column) -> f32 {
    f32::from_bits(((content & !DONE) >> u32::BITS) as u32)
}

/// Converts a fraction of 2^64 to a number in [0, 1).
#[inline]
fn height_of(fraction: u64) -> f64 {
    (fraction >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A sum in twice the precision: the rounding errors of the additions are summed separately (Neumaier, 1974).
struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    fn new(sum: f64) -> Self {
        Sum { sum, lost: 0.0 }
    }

    #[inline]
    fn add(&mut self, term: f64) {
        // Knuth's exact error term, which holds whichever of the two is larger.
        let sum = self.sum + term;
        let term_as_added = sum - self.sum;
        self.lost += (self.sum - (sum - term_as_added)) + (term - term_as_added);
        self.sum = sum;
    }

    fn value(&self) -> f64 {
        self.sum + self.lost
    }
}

/// Rounds to 32 bits, up or down so that the errors cancel.
#[derive(Default)]
struct Rounding {
    given: f64,
}

impl Rounding {
    #[inline]
    fn round(&mut self, exact: f64) -> f32 {
        let nearest = exact as f32;
        let error = f64::from(nearest) - exact;
        // An exact value stays exact, above all zero, which must never be drawn.
        let rounded = match error {
            0.0 => nearest,
            error if error > 0.0 && self.given > 0.0 => nearest.next_down(),
            error if error < 0.0 && self.given < 0.0 => nearest.next_up(),
            _ => nearest,
        };
        self.given += f64::from(rounded) - exact;
        rounded
    }
}
