//! [`sample_key`]: the seed of everything random about one sample.

use super::draws::Draws;
use super::key_stream::{KeyStream, Purpose};

/// Returns the 64-bit key of the sample at `index` in `epoch` under `seed`, with which to seed its augmentation.
///
/// It depends on nothing else, so a sample is augmented the same way by every worker, thread, or rank, and however
/// often the run was resumed. Within one epoch no two samples share a key (the key is a bijection of the index); across
/// epochs and seeds keys coincide as rarely as random 64-bit numbers. Keys are unrelated to the order of the epoch.
/// Every argument is valid; values never change between versions, platforms, or threads.
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
