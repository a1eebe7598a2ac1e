//! [`BufferDraws`]: which slot of a shuffle buffer comes next.

use super::below::below;
use super::draws::Draws;
use super::key_stream::{KeyStream, Purpose};

/// The draws of one shuffle buffer in one epoch, each of them a function of its place: nothing is stored between two
/// draws, so a buffer goes on from any place at once.
#[derive(Clone, Debug)]
pub(crate) struct BufferDraws(Draws);

impl BufferDraws {
    /// The draws of worker `worker` of rank `rank`.
    pub(crate) fn new(seed: u64, epoch: u64, rank: u64, worker: u64) -> Self {
        let keys = KeyStream::new(Purpose::ShuffleBuffer, seed, epoch);
        BufferDraws(Draws::from_keys(keys.absorb(rank).absorb(worker)))
    }

    /// Draw number `place`: a number below `range`.
    #[inline]
    pub(crate) fn below(&self, range: usize, place: u64) -> usize {
        below(range as u64, self.0.word_at(place)).0 as usize
    }
}
