//! [`Draws`]: one independent draw at each position.

use super::key_stream::{KeyStream, Purpose, mix};

/// 64 random bits at each position of an epoch: what is drawn with replacement.
///
/// The bits are a pure function of (purpose, seed, epoch, position) and cost a few nanoseconds at any position. Source: as
/// [`sample_key`](super::sample_key), SplitMix64's output function applied between two words that are mixed from seed and
/// epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    before: u64,
    after: u64,
}

impl Draws {
    /// The draws of `epoch` under `seed`.
    pub(crate) fn new(seed: u64, epoch: u64) -> Self {
        Self::of(Purpose::Draw, seed, epoch)
    }

    /// Other draws of the same epoch, which have nothing to do with those of [`new`](Self::new).
    pub(crate) fn race(seed: u64, epoch: u64) -> Self {
        Self::of(Purpose::Race, seed, epoch)
    }

    fn of(purpose: Purpose, seed: u64, epoch: u64) -> Self {
        let [before, after] = KeyStream::new(purpose, seed, epoch).next_pair();
        Draws { before, after }
    }

    /// The 64 bits at `position`.
    #[inline]
    pub(crate) fn word_at(&self, position: u64) -> u64 {
        mix(mix(position ^ self.before) ^ self.after)
    }
}

/// A number below `range` from 64 random bits, and what is left of the bits: where in the number's share of them, as a
/// fraction of 2^64.
///
/// The high word of the product, whose bias of `range` / 2^64 is beyond measuring, where a remainder would need a
/// division (Lemire, "Fast random integer generation in an interval", ACM TOMACS 29, 2019).
#[inline]
pub(crate) fn below(range: u64, word: u64) -> (u64, u64) {
    let product = u128::from(word) * u128::from(range);
    ((product >> u64::BITS) as u64, product as u64)
}
