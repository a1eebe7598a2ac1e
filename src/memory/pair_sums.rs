//! [`PairSums`]: sums of products of bytes and 16-bit weights, for which processors have instructions.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_packs_epi32, _mm_packus_epi16, _mm_unpackhi_epi8,
    _mm_unpacklo_epi8, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepu8_epi16, _mm256_extracti128_si256,
    _mm256_madd_epi16, _mm256_set1_epi32, _mm256_sll_epi32, _mm256_sra_epi32,
};
#[cfg(target_arch = "x86_64")]
use std::mem::transmute;

/// Eight sums, which wrap around.
pub(crate) trait PairSums: Copy {
    /// Returns sums that are all `start`.
    fn new(start: i32) -> Self;

    /// Adds both values of each pair, times their weights.
    fn add_pairs(self, pairs: &[u8; 16], weights: [i16; 2]) -> Self;

    /// Adds the values of two rows, times their weights, to twice as many sums.
    fn add_rows(sums: [Self; 2], rows: [&[u8; 16]; 2], weights: [i16; 2]) -> [Self; 2];

    /// Multiplies the sums by `1 << bits`, and adds `more`.
    fn shift_and_add(self, bits: u32, more: Self) -> Self;

    /// Divides the sums by `1 << bits`, and returns the closest bytes.
    fn to_bytes(self, bits: u32) -> [u8; 8];
}

impl PairSums for [i32; 8] {
    #[inline(always)]
    fn new(start: i32) -> Self {
        [start; 8]
    }

    #[inline(always)]
    fn add_pairs(mut self, pairs: &[u8; 16], weights: [i16; 2]) -> Self {
        for (sum, &[one, other]) in self.iter_mut().zip(pairs.as_chunks::<2>().0) {
            *sum = sum.wrapping_add(product(one, weights[0]) + product(other, weights[1]));
        }
        self
    }

    #[inline(always)]
    fn add_rows(mut sums: [Self; 2], [one, other]: [&[u8; 16]; 2], weights: [i16; 2]) -> [Self; 2] {
        for (sum, (&one, &other)) in sums.as_flattened_mut().iter_mut().zip(one.iter().zip(other)) {
            *sum = sum.wrapping_add(product(one, weights[0]) + product(other, weights[1]));
        }
        sums
    }

    #[inline(always)]
    fn shift_and_add(mut self, bits: u32, more: Self) -> Self {
        for (sum, more) in self.iter_mut().zip(more) {
            *sum = (*sum << bits).wrapping_add(more);
        }
        self
    }

    #[inline(always)]
    fn to_bytes(self, bits: u32) -> [u8; 8] {
        self.map(|sum| (sum >> bits).clamp(0, 255) as u8)
    }
}

#[inline(always)]
fn product(value: u8, weight: i16) -> i32 {
    i32::from(value) * i32::from(weight)
}

/// Sums in a vector of AVX2: values exist only where the processor has it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2Sums(__m256i);

// SAFETY of all blocks: only the kernels of `run_on_avx2` use the type, so the processor has the instructions, and every
// value of these types is valid.
#[cfg(target_arch = "x86_64")]
impl PairSums for Avx2Sums {
    #[inline(always)]
    fn new(start: i32) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_set1_epi32(start) })
    }

    #[inline(always)]
    fn add_pairs(self, pairs: &[u8; 16], weights: [i16; 2]) -> Self {
        // SAFETY: as above; the types have the same size.
        Self(unsafe { add_products(self.0, transmute::<[u8; 16], __m128i>(*pairs), weights) })
    }

    #[inline(always)]
    fn add_rows([low, high]: [Self; 2], rows: [&[u8; 16]; 2], weights: [i16; 2]) -> [Self; 2] {
        // SAFETY: as above; the types have the same size.
        unsafe {
            let [one, other] = [transmute::<[u8; 16], __m128i>(*rows[0]), transmute::<[u8; 16], __m128i>(*rows[1])];
            [
                Self(add_products(low.0, _mm_unpacklo_epi8(one, other), weights)),
                Self(add_products(high.0, _mm_unpackhi_epi8(one, other), weights)),
            ]
        }
    }

    #[inline(always)]
    fn shift_and_add(self, bits: u32, more: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_add_epi32(_mm256_sll_epi32(self.0, _mm_cvtsi32_si128(bits.cast_signed())), more.0) })
    }

    #[inline(always)]
    fn to_bytes(self, bits: u32) -> [u8; 8] {
        // SAFETY: as above.
        unsafe {
            let sums = _mm256_sra_epi32(self.0, _mm_cvtsi32_si128(bits.cast_signed()));
            let words = _mm_packs_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
            _mm_cvtsi128_si64(_mm_packus_epi16(words, words)).to_ne_bytes()
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn add_products(sums: __m256i, pairs: __m128i, [one, other]: [i16; 2]) -> __m256i {
    let weights = _mm256_set1_epi32((i32::from(other) << 16) | i32::from(one.cast_unsigned()));
    _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_cvtepu8_epi16(pairs), weights))
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;
    use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

    struct Sums;

    impl Kernel for Sums {
        type Output = [[u8; 8]; 5];

        #[inline(always)]
        fn run<M: MultiplyAdd>(self) -> Self::Output {
            let pairs =
                M::Sums::new(i32::MAX - 1000).add_pairs(&std::array::from_fn(|at| 17 * at as u8), [-3, i16::MAX]);
            let rows = [&std::array::from_fn(|at| at as u8), &[255; 16]];
            let [low, high] = M::Sums::add_rows([M::Sums::new(7); 2], rows, [i16::MAX, 9]);
            let both = M::Sums::new(-3).shift_and_add(11, high);
            [pairs.to_bytes(3), pairs.to_bytes(24), low.to_bytes(11), high.to_bytes(11), both.to_bytes(12)]
        }
    }

    #[test]
    fn sums_are_the_same_on_every_processor() {
        let bytes = run_on_vectors(Sums);
        assert_eq!(bytes, Sums.run::<crate::memory::vectors::Separate>());
        assert_eq!((bytes[0][0], bytes[1][7], bytes[2][3]), (0, 0, 49));
        assert_eq!((bytes[3][7], bytes[4][7]), (241, 119));
    }
}
