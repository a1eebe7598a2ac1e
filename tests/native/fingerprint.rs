//! One number for an order too long to be written down.

/// The sum, modulo 2^64, of SplitMix64's output function over value + position * golden ratio. A sum of words can be
/// computed as easily by NumPy over what torch gives, and still every value at every position counts.
pub(crate) fn fingerprint(values: impl IntoIterator<Item = u64>) -> u64 {
    values
        .into_iter()
        .enumerate()
        .map(|(position, value)| {
            let word = value.wrapping_add((position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        })
        .fold(0, u64::wrapping_add)
}
