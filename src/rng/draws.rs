//! [`Draws`]: one independent draw at each position.

use super::key_stream::{KeyStream, Purpose, mix};

/// 64 random bits at each position of an epoch, used for draws with replacement.
///
/// The bits are a pure function of (purpose, seed, epoch, position) and take a few nanoseconds at any position. No two
/// positions have the same bits: they are a bijection of the position.
///
/// Source: SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014), applied to the position between two words
/// that are themselves mixed from seed and epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    before: u64,
    after: u64,
}

impl Draws {
    /// Returns the draws of `epoch` under `seed`.
    pub(crate) fn new(seed: u64, epoch: u64) -> Self {
        Self::from_keys(KeyStream::new(Purpose::Draw, seed, epoch))
    }

    /// Returns other draws of the same epoch, unrelated to those of [`new`](Self::new).
    pub(crate) fn race(seed: u64, epoch: u64) -> Self {
        Self::from_keys(KeyStream::new(Purpose::Race, seed, epoch))
    }

    /// Returns the draws of a shuffle buffer: those of worker `worker` of rank `rank`.
    pub(crate) fn of_buffer(seed: u64, epoch: u64, rank: u64, worker: u64) -> Self {
        Self::from_keys(KeyStream::new(Purpose::ShuffleBuffer, seed, epoch).absorb(rank).absorb(worker))
    }

    /// Returns the draws that these keys determine.
    pub(super) fn from_keys(mut keys: KeyStream) -> Self {
        let [before, after] = keys.next_pair();
        Draws { before, after }
    }

    /// Returns the 64 bits at `position`.
    #[inline]
    pub(crate) fn word_at(&self, position: u64) -> u64 {
        mix(mix(position ^ self.before) ^ self.after)
    }
}
