//! [`digest`]: one number that stands for many.

use super::key_stream::{GOLDEN, mix};

/// 64 bits that change, as good as surely, when one of the words does or when two change places: what tells one list of
/// weights from another in a state. It is no protection against somebody who wants two lists to look alike.
///
/// Values never change between versions. A sum of mixed words, so that the words are mixed side by side and not one
/// behind the other.
pub(crate) fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    let (sum, place) = words.into_iter().fold((0_u64, 0_u64), |(sum, place), word| {
        (sum.wrapping_add(mix(word.wrapping_add(place))), place.wrapping_add(GOLDEN))
    });
    // The place behind the last word, so that zeros at the end count.
    mix(sum ^ mix(place))
}
