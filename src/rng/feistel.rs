//! [`FeistelNetwork`]: a keyed bijection on slightly more words than requested.

use super::below::below;
use super::key_stream::KeyStream;

/// A keyed bijection on [0, `left_modulus` * 2^`right_bits`).
///
/// A word is a pair: its low bits, which rounds xor, and the bits above them, a number modulo `left_modulus`, to which
/// rounds add. So the domain is the length rounded up to a multiple of 2^`right_bits`, about its square root. With a
/// power of two instead, it would be up to twice as large as the length, and walking its cycles would mispredict every
/// second branch, which costs more than the modular additions.
///
/// Source: the generalized Feistel network of Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002,
/// after Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom functions", SIAM J. Comput. 17
/// (1988).
#[derive(Clone, Debug)]
pub(super) struct FeistelNetwork {
    keys: [[u64; 2]; DOUBLE_ROUNDS],
    left_modulus: u64,
    right_bits: u32,
}

/// Number of double rounds. Four rounds, the Luby-Rackoff bound against an attacker, are too few here, as are six at
/// the shortest lengths: halves of a few bits repeat, and then indices of neighboring positions are visibly related.
pub(super) const DOUBLE_ROUNDS: usize = 4;

impl FeistelNetwork {
    /// Returns a network on the smallest domain that holds `len` words and splits well; `len` must be at least 16.
    pub(super) fn new(len: u64, keys: &mut KeyStream) -> Self {
        debug_assert!(len >= 16, "both halves need a few values");
        // Do not use a floating-point logarithm: it rounds down just above a power of two, and the domain would then be
        // too small to be a bijection on its words.
        let right_bits = (u64::BITS - (len - 1).leading_zeros()) / 2;
        FeistelNetwork {
            keys: std::array::from_fn(|_| keys.next_pair()),
            left_modulus: ((len - 1) >> right_bits) + 1,
            right_bits,
        }
    }

    /// Returns the image of `word`, which must be in the domain.
    #[inline]
    pub(super) fn forward(&self, word: u64) -> u64 {
        let (mut left, mut right) = self.split(word);
        for [left_key, right_key] in self.keys {
            let sum = left + self.left_value(right, left_key);
            left = if sum >= self.left_modulus { sum - self.left_modulus } else { sum };
            right ^= self.right_value(left, right_key);
        }
        (left << self.right_bits) | right
    }

    /// Returns the word whose image is `word`, which must be in the domain.
    #[inline]
    pub(super) fn backward(&self, word: u64) -> u64 {
        let (mut left, mut right) = self.split(word);
        for [left_key, right_key] in self.keys.into_iter().rev() {
            right ^= self.right_value(left, right_key);
            let value = self.left_value(right, left_key);
            left = if left >= value { left - value } else { left + self.left_modulus - value };
        }
        (left << self.right_bits) | right
    }

    /// Returns the number of values of the left half.
    pub(super) fn left_modulus(&self) -> u64 {
        self.left_modulus
    }

    /// Returns the number of bits of the right half.
    pub(super) fn right_bits(&self) -> u32 {
        self.right_bits
    }

    /// Returns the value that double round `round` adds to the left half when the right one is `right`.
    pub(super) fn left_value_in(&self, round: usize, right: u64) -> u64 {
        self.left_value(right, self.keys[round][0])
    }

    /// Returns the value that double round `round` xors to the right half when the left one is `left`.
    pub(super) fn right_value_in(&self, round: usize, left: u64) -> u64 {
        self.right_value(left, self.keys[round][1])
    }

    #[inline]
    fn split(&self, word: u64) -> (u64, u64) {
        (word >> self.right_bits, word & ((1 << self.right_bits) - 1))
    }

    /// Returns a number below `left_modulus`, with a bias of at most 2^-32.
    #[inline]
    fn left_value(&self, right: u64, key: u64) -> u64 {
        below(self.left_modulus, round(right, key)).0
    }

    /// Returns the highest bits, because only they depend on every bit of the half and of the key.
    #[inline]
    fn right_value(&self, left: u64, key: u64) -> u64 {
        round(left, key) >> (u64::BITS - self.right_bits)
    }
}

#[inline]
fn round(half: u64, key: u64) -> u64 {
    let mixed = (half ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb)
}
