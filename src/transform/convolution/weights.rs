//! [`Axis`]: how the rows, or columns, of a resized image of bytes are computed from those of the image.

use std::ops::Range;

use super::shares::{Places, ShareOf, Shares};
use crate::memory::PairSums;
use crate::transform::operation::{Antialias, Interpolation};

/// Fractional bits of a weight of Pillow's: 32, minus 8 for the value and 2 for sums above 255 or below 0.
const PRECISION: u32 = 32 - 8 - 2;

/// The low bits of a weight that has more than 16.
const LOW_BITS: u32 = 11;

/// How each position of the result's rows, or columns, is computed.
pub(super) enum Axis {
    /// These positions, unchanged: nothing is resized in this direction.
    Kept { first: usize, count: usize },
    /// For each position of the result, a weighted run of positions of the image.
    Weighted(Weights),
}

/// Weights of positions, which are taken in pairs, because processors multiply and add pairs of 16-bit numbers at once.
/// The first pair begins at the first position of all.
pub(super) struct Weights {
    /// The first pair of each run.
    runs: Vec<usize>,
    /// The first position in any run, and the number of positions from there to the last one.
    all: (usize, usize),
    /// The pairs of a run: those of the longest one, because loops are faster if all are equally long.
    pairs: usize,
    low: Vec<[i16; 2]>,
    /// The weights are `high << LOW_BITS + low`; empty if they fit in 16 bits.
    high: Vec<[i16; 2]>,
    precision: u32,
}

/// The weights of one position of the result.
pub(super) struct Run<'a> {
    /// The number of its first pair.
    pub(super) first: usize,
    pub(super) low: &'a [[i16; 2]],
    /// As many as `low`, or none: multiplied by `1 << LOW_BITS`.
    pub(super) high: &'a [[i16; 2]],
}

impl Axis {
    /// Returns how `window` of `to` positions is computed from `from` positions, with the arithmetic of Pillow or
    /// torch.
    pub(super) fn exact(
        from: usize,
        to: usize,
        (interpolation, antialias): (Interpolation, Antialias),
        window: Range<usize>,
    ) -> Self {
        if from == to {
            return Self::Kept { first: window.start, count: window.len() };
        }
        if let Interpolation::Nearest | Interpolation::NearestExact = interpolation {
            // A weight of one, with one fractional bit.
            return Self::Weighted(Weights::new(&Shares::nearest(from, to, window), 1));
        }
        let share = ShareOf::exact(from, to, (interpolation, antialias));
        let precision = match antialias {
            Antialias::Torch => fitting_precision(share.largest(to), PRECISION),
            _ => PRECISION,
        };
        Self::Weighted(Weights::new(&Shares::new(&share, window), precision))
    }

    /// Returns how `to` positions are computed from `places`.
    pub(super) fn smooth(places: Places, to: usize, filter: (Interpolation, Antialias)) -> Self {
        if let Some(first) = places.kept_in(to) {
            return Self::Kept { first, count: to };
        }
        let shares = Shares::new(&ShareOf::smooth(places, to, filter), 0..to);
        Self::Weighted(Weights::new(&shares, fitting_precision(shares.largest(), PRECISION - 1)))
    }

    /// Returns the first position that is needed, and the number of positions.
    pub(super) fn source(&self) -> (usize, usize) {
        match self {
            Self::Kept { first, count } => (*first, *count),
            Self::Weighted(weights) => weights.all,
        }
    }

    /// Returns the number of positions of the result.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Kept { count, .. } => *count,
            Self::Weighted(weights) => weights.runs.len(),
        }
    }
}

impl Weights {
    /// Rounds shares to this many fractional bits.
    fn new(shares: &Shares, precision: u32) -> Self {
        let (start, positions) = shares.all();
        let pairs_of = |(first, shares): (usize, &[f64])| ((first - start) % 2 + shares.len()).div_ceil(2);
        let pairs = shares.runs().map(pairs_of).max().unwrap_or(0);
        let last = positions.div_ceil(2) - pairs;
        let runs: Vec<_> = shares.runs().map(|(first, _)| ((first - start) / 2).min(last)).collect();
        let one = f64::from(1 << precision);
        let is_wide = shares.largest() * one > f64::from(i16::MAX);
        let mut low = vec![[0; 2]; runs.len() * pairs];
        let mut high = vec![[0; 2]; if is_wide { low.len() } else { 0 }];
        for (number, (first, shares)) in shares.runs().enumerate() {
            let skipped = 2 * (pairs * number) + first - start - 2 * runs[number];
            for (place, &share) in shares.iter().enumerate() {
                let weight = (if share < 0.0 { share * one - 0.5 } else { share * one + 0.5 }) as i32;
                let (pair, half) = ((skipped + place) / 2, (skipped + place) % 2);
                if is_wide {
                    low[pair][half] = (weight & ((1 << LOW_BITS) - 1)) as i16;
                    high[pair][half] = (weight >> LOW_BITS) as i16;
                } else {
                    low[pair][half] = weight as i16;
                }
            }
        }
        Self { runs, all: (start, positions), pairs, low, high, precision }
    }

    /// Returns the weights of the position `place` of the result.
    #[inline(always)]
    pub(super) fn run(&self, place: usize) -> Run<'_> {
        let weights = place * self.pairs..(place + 1) * self.pairs;
        let high = if self.high.is_empty() { &[] } else { &self.high[weights.clone()] };
        Run { first: self.runs[place], low: &self.low[weights], high }
    }

    /// Returns what a sum begins with, so that it is rounded to the closest byte.
    #[inline(always)]
    pub(super) fn half(&self) -> i32 {
        1 << (self.precision - 1)
    }

    /// Returns the bytes of sums, which are those of the products with low, and with high, bits of weights.
    #[inline(always)]
    pub(super) fn bytes<S: PairSums>(&self, low: S, high: S) -> [u8; 8] {
        // The products with low bits alone may overflow, but the whole sum does not.
        high.shift_and_add(LOW_BITS, low).to_bytes(self.precision)
    }
}

/// Returns the number of fractional bits, at most `most`, of 16-bit weights, the largest of which is `largest`.
fn fitting_precision(largest: f64, most: u32) -> u32 {
    let fits = |precision: u32| (largest * f64::from(1 << precision) + 0.5) as i32 <= i32::from(i16::MAX);
    (1..=most).take_while(|&precision| fits(precision)).last().unwrap_or(1)
}
