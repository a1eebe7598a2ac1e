//! One number for an order that is too long to write down.

/// Returns the sum, modulo 2^64, of SplitMix64's output function over value + position * golden ratio. NumPy can easily
/// compute such a sum for torch's orders, and every value at every position still counts.
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
