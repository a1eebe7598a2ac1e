//! [`below`]: a number in a range, from 64 random bits.

/// Returns a number below `range` from 64 random bits, and the randomness left over: the position of `word` among the
/// words that give this number, as a fraction of 2^64. With a range of 0 the number is 0.
///
/// The number is the high word of the product. Its bias of `range` / 2^64 is too small to measure, and a remainder
/// would need a division (Lemire, "Fast random integer generation in an interval", ACM TOMACS 29, 2019).
#[inline]
pub(crate) fn below(range: u64, word: u64) -> (u64, u64) {
    let product = u128::from(word) * u128::from(range);
    ((product >> u64::BITS) as u64, product as u64)
}
