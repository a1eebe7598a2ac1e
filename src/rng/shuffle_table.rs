//! [`ShuffleTable`]: a shuffle of few indices, held in memory.

use super::below::below;
use super::key_stream::KeyStream;

/// A uniformly random permutation of up to 255 indices and its inverse.
///
/// Source: Durstenfeld, "Algorithm 235: Random permutation", CACM 7 (1964), known as the Fisher-Yates shuffle.
#[derive(Clone, Debug)]
pub(super) struct ShuffleTable {
    index_at: Box<[u8]>,
    position_of: Box<[u8]>,
}

impl ShuffleTable {
    pub(super) fn new(len: u8, keys: &mut KeyStream) -> Self {
        let mut index_at: Box<[u8]> = (0..len).collect();
        for last in (1..index_at.len()).rev() {
            let [key, _] = keys.next_pair();
            index_at.swap(last, below(last as u64 + 1, key).0 as usize);
        }
        let mut position_of = vec![0; index_at.len()].into_boxed_slice();
        for position in 0..len {
            position_of[usize::from(index_at[usize::from(position)])] = position;
        }
        ShuffleTable { index_at, position_of }
    }

    /// `position` must be below the length.
    #[inline]
    pub(super) fn index_at(&self, position: u64) -> u64 {
        u64::from(self.index_at[position as usize])
    }

    /// `index` must be below the length.
    #[inline]
    pub(super) fn position_of(&self, index: u64) -> u64 {
        u64::from(self.position_of[index as usize])
    }
}
