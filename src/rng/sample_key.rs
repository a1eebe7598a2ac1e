//! [`sample_key`]: the seed of whatever is random about one sample.

use super::draws::Draws;
use super::key_stream::{KeyStream, Purpose};

/// The 64-bit key of the sample at `index` in `epoch` under `seed`: what its augmentation is seeded with.
///
/// It depends on nothing else, so a sample is augmented alike whichever worker, thread or rank fetches it and however
/// often the run was resumed. Within one epoch no two samples share a key (the key is a bijection of the index); across
/// epochs and seeds keys coincide as seldom as random 64-bit numbers do. Keys are unrelated to the order of the epoch.
/// Every argument is legal; values never change between versions, platforms or threads.
///
/// Source: SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014), applied to the index between two words
/// that are themselves mixed from seed and epoch.
///
/// # Example
/// ```
/// use sluicegate::sample_key;
///
/// assert_eq!(sample_key(7, 0, 42), sample_key(7, 0, 42));
/// assert_ne!(sample_key(7, 0, 42), sample_key(7, 1, 42));
/// assert_ne!(sample_key(7, 1, 42), sample_key(8, 0, 42));
/// ```
pub fn sample_key(seed: u64, epoch: u64, index: u64) -> u64 {
    Draws::from_keys(KeyStream::new(Purpose::Sample, seed, epoch)).word_at(index)
}
