//! [`digest`]: one number that identifies a list of numbers.

use super::key_stream::{GOLDEN, mix};

/// Returns 64 bits that almost certainly change when a word changes or two words trade places: they distinguish lists
/// (of weights, for example) in a state. They give no protection against someone who constructs two lists with the same
/// digest.
///
/// Values never change between versions. The digest is a sum of mixed words, so that the words are mixed in parallel
/// instead of one after another.
pub(crate) fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    let (sum, place) = words.into_iter().fold((0_u64, 0_u64), |(sum, place), word| {
        (sum.wrapping_add(mix(word.wrapping_add(place))), place.wrapping_add(GOLDEN))
    });
    // Include the number of words, so that trailing zeros count.
    mix(sum ^ mix(place))
}
