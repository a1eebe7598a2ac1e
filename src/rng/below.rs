//! [`below`]: a number of a range, from 64 random bits.

/// A number below `range` from 64 random bits, and what is left of the bits: where in the number's share of them, as a
/// fraction of 2^64. With a range of 0 the number is 0.
///
/// The high word of the product, whose bias of `range` / 2^64 is beyond measuring, where a remainder would need a
/// division (Lemire, "Fast random integer generation in an interval", ACM TOMACS 29, 2019).
#[inline]
pub(crate) fn below(range: u64, word: u64) -> (u64, u64) {
    let product = u128::from(word) * u128::from(range);
    ((product >> u64::BITS) as u64, product as u64)
}
