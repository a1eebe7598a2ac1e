//! [`BufferDraws`]: which slot of a shuffle buffer comes next.

use super::key_stream::{KeyStream, Purpose, mix};
use super::shuffle_table::below;

/// The draws of one shuffle buffer in one epoch, each of them a function of its place: nothing is stored between two
/// draws, so a buffer goes on from any place at once.
///
/// Source: SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014), applied to the place between two words
/// that are themselves mixed from seed, epoch and consumer.
#[derive(Clone, Debug)]
pub(crate) struct BufferDraws {
    before: u64,
    after: u64,
}

impl BufferDraws {
    /// The draws of worker `worker` of rank `rank`.
    pub(crate) fn new(seed: u64, epoch: u64, rank: u64, worker: u64) -> Self {
        let [before, after] =
            KeyStream::new(Purpose::ShuffleBuffer, seed, epoch).absorb(rank).absorb(worker).next_pair();
        BufferDraws { before, after }
    }

    /// Draw number `place`: a number below `range`.
    #[inline]
    pub(crate) fn below(&self, range: usize, place: u64) -> usize {
        below(range as u64, mix(mix(place ^ self.before) ^ self.after)) as usize
    }
}
