//! [`MixturePlan`]: how often each part of a mixture has occurred before any position.

use super::mixture_weights::{MixtureWeights, StopCriteria};
use crate::error::{Error, Result};
use crate::rng::digest;

/// Computes how many samples of each part an epoch has read before any position.
///
/// While the weights are constant, the parts take their shares of the positions one after another: of the t positions
/// that earlier parts left, a part takes `share` * t, rounded down, plus a fraction that is carried over when the
/// weights change. So a count never decreases, the counts sum to the position, and each count is off by at most the
/// roundings before it: less than two in practice. This is Bresenham's line algorithm, applied once per part; it uses
/// only integers, so it is exact at any length.
#[derive(Debug)]
pub(super) struct MixturePlan {
    lens: Vec<u64>,
    pieces: Vec<Piece>,
    len: u64,
}

/// A range of positions, from `start` to the next piece, in which the weights are constant.
#[derive(Clone, Debug)]
struct Piece {
    start: u64,
    /// How often each part occurred before `start`.
    counts: Vec<u64>,
    /// The share of each part in the positions that the parts before it leave, as a fraction of 2^63.
    shares: Vec<u64>,
    /// The fraction of a position that each part has accumulated, as a fraction of 2^63: less than one position.
    claims: Vec<u64>,
}

/// Positions from `start` to `end`, in which the weights are constant.
pub(super) struct Stretch {
    pub(super) start: u64,
    pub(super) end: u64,
}

const ONE: u64 = 1 << 63;

/// Maximum length of an epoch: positions are `usize`, and counts are compared with them.
const LONGEST: u64 = usize::MAX as u64 >> 1;

/// Maximum number of steps for a ramp between two breakpoints.
const RAMP_STEPS: u64 = 1024;

impl MixturePlan {
    pub(super) fn new(lens: &[usize], weights: &MixtureWeights, stop: StopCriteria) -> Result<Self> {
        let lens: Vec<u64> = lens.iter().map(|&len| len as u64).collect();
        check(&lens, weights)?;
        let steps = steps_of(weights);
        let mut plan = MixturePlan { pieces: Vec::new(), len: 0, lens };
        let mut at = Place { position: 0, counts: vec![0; plan.lens.len()], claims: vec![ONE / 2; plan.lens.len()] };
        let mut step = 0;
        loop {
            while step + 1 < steps.len() && steps[step + 1].0 <= at.position {
                step += 1;
            }
            if plan.is_over(&at.counts, at.position, stop) {
                break;
            }
            let (_, weights) = &steps[step];
            let last = step + 1 == steps.len();
            let end = if last { LONGEST } else { steps[step + 1].0 };
            let weights = plan.weights_left(weights, &at.counts, stop);
            if weights.iter().all(|weight| *weight <= 0.0) {
                // No part occurs with these weights: skip to the next ones. If there are none, the epoch would never
                // end.
                if last {
                    return Err(plan.endless(&at.counts));
                }
                step += 1;
                continue;
            }
            let piece = Piece::new(&at, &weights);
            let end = plan.end_of(&piece, end, stop);
            if last && end >= LONGEST {
                return Err(plan.endless(&piece.counts_at(LONGEST)));
            }
            at = piece.place_at(end);
            plan.pieces.push(piece);
        }
        plan.len = at.position;
        Ok(plan)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn lens(&self) -> &[u64] {
        &self.lens
    }

    /// Returns a digest of the lengths of the parts and their weights.
    pub(super) fn digest(&self) -> u64 {
        let pieces = self.pieces.iter().flat_map(|piece| {
            let parts = [&piece.counts, &piece.shares, &piece.claims];
            [piece.start].into_iter().chain(parts.into_iter().flatten().copied())
        });
        digest(self.lens.iter().copied().chain(pieces))
    }

    /// Returns the same plan, ended after `len` positions.
    pub(super) fn cut_to(&self, len: u64) -> Self {
        MixturePlan { lens: self.lens.clone(), pieces: self.pieces.clone(), len: self.len.min(len) }
    }

    /// Returns the range in which the weights at `position`, which must be below the length, are constant.
    pub(super) fn stretch_of(&self, position: u64) -> Stretch {
        let next = self.pieces.partition_point(|piece| piece.start <= position);
        let end = self.pieces.get(next).map_or(self.len, |piece| piece.start.min(self.len));
        Stretch { start: self.pieces[next - 1].start, end }
    }

    /// Returns how often each part occurs before `position`.
    pub(super) fn counts_at(&self, position: u64) -> Vec<u64> {
        match self.pieces.partition_point(|piece| piece.start <= position) {
            0 => vec![0; self.lens.len()],
            next => self.pieces[next - 1].counts_at(position),
        }
    }

    fn is_over(&self, counts: &[u64], position: u64, stop: StopCriteria) -> bool {
        let mut parts = self.lens.iter().zip(counts);
        match stop {
            StopCriteria::CycleForever(num_samples) => position >= num_samples as u64,
            StopCriteria::FirstDatasetExhausted => parts.any(|(len, count)| *len > 0 && count >= len),
            StopCriteria::CycleUntilAllDatasetsExhausted | StopCriteria::AllDatasetsExhausted => {
                parts.all(|(len, count)| count >= len)
            }
        }
    }

    /// Returns the weights of the parts that may still occur.
    fn weights_left(&self, weights: &[f64], counts: &[u64], stop: StopCriteria) -> Vec<f64> {
        let is_available = |part: usize| stop != StopCriteria::AllDatasetsExhausted || counts[part] < self.lens[part];
        weights.iter().enumerate().map(|(part, &weight)| if is_available(part) { weight } else { 0.0 }).collect()
    }

    /// Returns where a piece must end: where the epoch or, if that matters, a part is complete, but at most `end`.
    fn end_of(&self, piece: &Piece, end: u64, stop: StopCriteria) -> u64 {
        let has_to_stop = |position: u64| {
            let counts = piece.counts_at(position);
            let through = |part: usize| piece.counts[part] < self.lens[part] && counts[part] >= self.lens[part];
            self.is_over(&counts, position, stop)
                || (stop == StopCriteria::AllDatasetsExhausted && (0..counts.len()).any(through))
        };
        // Counts never decrease, so this stays true once it is true: find the first such position by bisection.
        let (mut not_over, mut over) = (piece.start, end);
        while over - not_over > 1 {
            let middle = not_over + (over - not_over) / 2;
            if has_to_stop(middle) { over = middle } else { not_over = middle }
        }
        over
    }

    fn endless(&self, counts: &[u64]) -> Error {
        let waits = (0..self.lens.len()).find(|&part| counts[part] < self.lens[part]).unwrap_or(0);
        let reason = format!(
            "the epoch would never end: part {waits} has {} samples, but its weight allows only {} of them; raise its \
             weight, or end with FIRST_DATASET_EXHAUSTED or after num_samples",
            self.lens[waits], counts[waits]
        );
        Error::invalid("weights", reason)
    }
}

/// A position, and the counts before it.
struct Place {
    position: u64,
    counts: Vec<u64>,
    claims: Vec<u64>,
}

impl Piece {
    fn new(at: &Place, weights: &[f64]) -> Self {
        // Compute shares from the last part backward: each part's weight relative to its own and all later weights.
        let mut later_weight = 0.0;
        let mut shares: Vec<u64> = weights
            .iter()
            .rev()
            .map(|&weight| {
                later_weight += weight;
                if weight <= 0.0 { 0 } else { (weight / later_weight * ONE as f64) as u64 }
            })
            .collect();
        shares.reverse();
        Piece { start: at.position, counts: at.counts.clone(), shares, claims: at.claims.clone() }
    }

    /// Returns, for each part, how often it occurs between the start and `position`, and its claim at that point.
    fn taken(&self, position: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut left = position - self.start;
        self.shares.iter().zip(&self.claims).map(move |(&share, &claim)| {
            // A part that takes all positions must not round up: there is nothing beyond the remaining positions.
            let sum = u128::from(share) * u128::from(left) + u128::from(claim);
            let count = ((sum >> 63) as u64).min(left);
            left -= count;
            (count, (sum & u128::from(ONE - 1)) as u64)
        })
    }

    fn counts_at(&self, position: u64) -> Vec<u64> {
        self.taken(position).zip(&self.counts).map(|((count, _), before)| before + count).collect()
    }

    fn place_at(&self, position: u64) -> Place {
        let claims = self.taken(position).map(|(_, claim)| claim).collect();
        Place { position, counts: self.counts_at(position), claims }
    }
}

fn check(lens: &[u64], weights: &MixtureWeights) -> Result<()> {
    let invalid = |reason: String| Err(Error::invalid("weights", reason));
    if lens.is_empty() || weights.breakpoints.is_empty() {
        return invalid("expected at least one part with a weight, got none".to_owned());
    }
    for (place, (position, at_once)) in weights.breakpoints.iter().enumerate() {
        if at_once.len() != lens.len() {
            return invalid(format!(
                "expected one for each part, got {} at position {position} for {} parts",
                at_once.len(),
                lens.len()
            ));
        }
        if let Some(part) = at_once.iter().position(|weight| !(*weight >= 0.0 && weight.is_finite())) {
            let weight = at_once[part];
            return invalid(format!("the weight of part {part} must be finite and not negative, got {weight}"));
        }
        if let Some(part) = at_once.iter().zip(lens).position(|(weight, len)| *weight > 0.0 && *len == 0) {
            return invalid(format!("part {part} has no samples, so its weight must be 0, got {}", at_once[part]));
        }
        let sum: f64 = at_once.iter().sum();
        if sum <= 0.0 || !sum.is_finite() {
            return invalid(format!("the weights at position {position} must have a positive, finite sum, got {sum}"));
        }
        if place > 0 && weights.breakpoints[place - 1].0 >= *position {
            return invalid(format!(
                "breakpoints must increase, got {position} after {}",
                weights.breakpoints[place - 1].0
            ));
        }
    }
    Ok(())
}

/// Returns the positions from which each set of weights applies, ascending, starting at 0.
fn steps_of(weights: &MixtureWeights) -> Vec<(u64, Vec<f64>)> {
    let mut steps: Vec<(u64, Vec<f64>)> = Vec::new();
    let mut hold_from = |position: u64, weights: Vec<f64>| {
        if steps.last().is_some_and(|(before, _)| *before == position) {
            steps.pop();
        }
        steps.push((position, weights));
    };
    for (place, (position, at_once)) in weights.breakpoints.iter().enumerate() {
        let position = *position as u64;
        hold_from(if place == 0 { 0 } else { position }, at_once.clone());
        let Some((next, then)) = weights.breakpoints.get(place + 1) else { continue };
        if weights.is_linear {
            let span = *next as u64 - position;
            let count = span.min(RAMP_STEPS);
            for step in 0..count {
                let start = position + (u128::from(span) * u128::from(step) / u128::from(count)) as u64;
                // Each step has the weights of its midpoint, so that the steps together approximate the ramp.
                let progress = (step as f64 + 0.5) / count as f64;
                hold_from(start, at_once.iter().zip(then).map(|(from, to)| from + (to - from) * progress).collect());
            }
        }
    }
    steps
}
