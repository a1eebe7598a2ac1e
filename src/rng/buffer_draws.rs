//! [`BufferDraws`]: determines which slot of a shuffle buffer comes next.

use super::below::below;
use super::draws::Draws;
use super::key_stream::{KeyStream, Purpose};

/// The draws of one shuffle buffer in one epoch. Each is a function of its position: nothing is stored between draws,
/// so a buffer can resume at any position immediately.
#[derive(Clone, Debug)]
pub(crate) struct BufferDraws(Draws);

impl BufferDraws {
    /// Returns the draws of worker `worker` of rank `rank`.
    pub(crate) fn new(seed: u64, epoch: u64, rank: u64, worker: u64) -> Self {
        let keys = KeyStream::new(Purpose::ShuffleBuffer, seed, epoch);
        BufferDraws(Draws::from_keys(keys.absorb(rank).absorb(worker)))
    }

    /// Returns draw number `place`: a number below `range`.
    #[inline]
    pub(crate) fn below(&self, range: usize, place: u64) -> usize {
        below(range as u64, self.0.word_at(place)).0 as usize
    }
}
