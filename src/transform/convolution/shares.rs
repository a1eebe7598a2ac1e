//! [`Shares`]: how much each position of an image contributes to the positions of a resized one.

use std::ops::Range;

use super::filters::{bicubic, bicubic_of_torch, bilinear, box_filter, hamming, lanczos};
use crate::transform::operation::{Antialias, Interpolation};

/// For each position of the result, a run of positions of the image, and their shares, which add up to one.
pub(super) struct Shares {
    /// The first position of each run, and the places of its shares.
    runs: Vec<(usize, Range<usize>)>,
    shares: Vec<f64>,
}

/// The positions that are resized: `length` from `start` on, which may be fractional, of `count`. Positions around these
/// contribute to the edges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) count: usize,
    pub(super) start: f64,
    pub(super) length: f64,
}

impl Places {
    /// Returns the first of `to` positions if they are unchanged.
    pub(super) fn kept_in(self, to: usize) -> Option<usize> {
        (to as f64 == self.length && self.start.fract() == 0.0).then_some(self.start as usize)
    }
}

/// Computes the shares of a position of the result.
pub(super) struct ShareOf {
    places: Places,
    scale: f64,
    filter: fn(f64) -> f64,
    /// The distance from which on the filter is zero.
    support: f64,
    /// What a distance is multiplied by, for the filter.
    narrow: f64,
    is_exact: bool,
}

impl ShareOf {
    /// The shares of Pillow or torch.
    pub(super) fn exact(from: usize, to: usize, (interpolation, antialias): (Interpolation, Antialias)) -> Self {
        let places = Places { count: from, start: 0.0, length: from as f64 };
        let (support, filter) = match (interpolation, antialias) {
            (Interpolation::Bicubic, Antialias::Torch) => (2.0, bicubic_of_torch as fn(f64) -> f64),
            _ => filter_of(interpolation),
        };
        let scale = from as f64 / to as f64;
        let stretch = scale.max(1.0);
        Self { places, scale, filter, support: support * stretch, narrow: 1.0 / stretch, is_exact: true }
    }

    /// Shares that differ from Pillow's and torch's in their last bits. Bilinear results without antialiasing come from
    /// the two closest positions.
    pub(super) fn smooth(places: Places, to: usize, (interpolation, antialias): (Interpolation, Antialias)) -> Self {
        let (support, filter) = filter_of(interpolation);
        let scale = ((places.start + places.length) - places.start) / to as f64;
        let takes_closest = (interpolation, antialias) == (Interpolation::Bilinear, Antialias::Off);
        let stretch = if takes_closest { 1.0 } else { scale.max(1.0) };
        Self { places, scale, filter, support: support * stretch, narrow: 1.0 / stretch, is_exact: false }
    }

    /// Returns the largest share of any of `to` positions.
    pub(super) fn largest(&self, to: usize) -> f64 {
        let mut shares = Vec::new();
        (0..to).fold(0.0, |largest, place| {
            shares.clear();
            self.push(place, &mut shares);
            shares.iter().copied().fold(largest, f64::max)
        })
    }

    /// Appends the shares of `place`, and returns the position of the first one.
    fn push(&self, place: usize, shares: &mut Vec<f64>) -> usize {
        let &Self { places: Places { count, start, .. }, scale, filter, support, narrow, is_exact } = self;
        let before = shares.len();
        let center = start + (place as f64 + 0.5) * scale;
        let first = if is_exact {
            let first = ((center - support + 0.5) as i64).max(0) as usize;
            let end = ((center + support + 0.5) as usize).min(count);
            shares.extend((first..end).map(|place| filter((place as f64 - center + 0.5) * narrow)));
            first
        } else {
            let first = (center - support).floor().max(0.0) as usize;
            let end = (center + support).ceil().min(count as f64) as usize;
            shares.extend((first..end).map(|place| filter((place as f64 - (center - 0.5)) * narrow)));
            first
        };
        let sum = shares[before..].iter().fold(0.0, |sum, share| sum + share);
        if sum != 0.0 {
            shares[before..].iter_mut().for_each(|share| *share /= sum);
        }
        first
    }
}

impl Shares {
    /// Returns the shares of the positions in `window` of the result.
    pub(super) fn new(share: &ShareOf, window: Range<usize>) -> Self {
        let mut shares = Vec::new();
        let runs = window.map(|place| {
            let before = shares.len();
            (share.push(place, &mut shares), before..shares.len())
        });
        Self { runs: runs.collect(), shares }
    }

    /// Returns the whole shares of the closest positions, which are accumulated step by step, as in Pillow.
    pub(super) fn nearest(from: usize, to: usize, window: Range<usize>) -> Self {
        let step = from as f64 / to as f64;
        let mut at = step * 0.5;
        let mut runs = Vec::with_capacity(window.len());
        for place in 0..window.end {
            if place >= window.start {
                runs.push(((at as usize).min(from - 1), 0..1));
            }
            at += step;
        }
        Self { runs, shares: vec![1.0] }
    }

    /// Returns whole shares of `count` positions from `first` on.
    pub(super) fn kept(first: usize, count: usize) -> Self {
        Self { runs: (first..first + count).map(|place| (place, 0..1)).collect(), shares: vec![1.0] }
    }

    /// Returns, for each position of the result, the first position of its run and the shares.
    pub(super) fn runs(&self) -> impl ExactSizeIterator<Item = (usize, &[f64])> {
        self.runs.iter().map(|(first, places)| (*first, &self.shares[places.clone()]))
    }

    /// Returns the first position in any run, and the number of positions from there to the last one.
    pub(super) fn all(&self) -> (usize, usize) {
        let first = self.runs.iter().map(|(first, _)| *first).min().unwrap_or(0);
        (first, self.runs.iter().map(|(first, places)| first + places.len()).max().unwrap_or(first) - first)
    }

    /// Returns the largest share.
    pub(super) fn largest(&self) -> f64 {
        self.shares.iter().copied().fold(0.0, f64::max)
    }
}

/// Returns a filter, and the distance from which on it is zero.
fn filter_of(interpolation: Interpolation) -> (f64, fn(f64) -> f64) {
    match interpolation {
        Interpolation::Box => (0.5, box_filter),
        Interpolation::Hamming => (1.0, hamming),
        Interpolation::Bicubic => (2.0, bicubic),
        Interpolation::Lanczos => (3.0, lanczos),
        _ => (1.0, bilinear),
    }
}
