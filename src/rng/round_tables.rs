//! [`RoundTables`]: the rounds of a Feistel network, looked up instead of computed.

use super::feistel::{DOUBLE_ROUNDS, FeistelNetwork};

/// What every round of a [`FeistelNetwork`] does to every half that there is.
///
/// A half has about as many values as the square root of the length, so the rounds of 10^6 words fit into the fastest
/// cache and those of 10^9 into the next, and a word costs eight look-ups instead of twenty multiplications. Words are computed several at a time:
/// each look-up waits for the one before it in its own word, never for another word.
#[derive(Clone, Debug)]
pub(super) struct RoundTables {
    /// For each double round: what is added to the left half, less the modulus, and what is xored to the right one.
    rounds: [[Table; 2]; DOUBLE_ROUNDS],
    left_modulus: u32,
    right_bits: u32,
    right_mask: u32,
}

/// A value for each of the halves below the modulus. It has room for any 16-bit half, so no look-up needs a check; what
/// is never written takes no memory, because fresh memory is mapped when it is first touched.
type Table = Box<[u32; 1 << u16::BITS]>;

/// How many words are under way together: enough to hide the look-ups' latency, few enough for the registers.
const LANES: usize = 12;

impl RoundTables {
    /// The tables of `network`; nothing when a half of it is wider than 16 bits.
    pub(super) fn new(network: &FeistelNetwork) -> Option<Self> {
        let left_modulus = u32::try_from(network.left_modulus()).ok().filter(|modulus| *modulus <= 1 << u16::BITS)?;
        let right_bits = network.right_bits();
        if right_bits > u16::BITS {
            return None;
        }
        let mut rounds = std::array::from_fn(|_| [table(), table()]);
        for (round, [left_values, right_values]) in rounds.iter_mut().enumerate() {
            for (right, value) in left_values[..1 << right_bits].iter_mut().enumerate() {
                *value = (network.left_value_in(round, right as u64) as u32).wrapping_sub(left_modulus);
            }
            for (left, value) in right_values[..left_modulus as usize].iter_mut().enumerate() {
                *value = network.right_value_in(round, left as u64) as u32;
            }
        }
        Some(RoundTables { rounds, left_modulus, right_bits, right_mask: (1 << right_bits) - 1 })
    }

    /// Writes the images of the words `start`, `start + step` and so on, which must be in the domain.
    pub(super) fn forward_all(&self, start: u64, step: u64, into: &mut [usize]) {
        let mut word = start;
        // A last group is filled up with words that may not exist, whose images mean nothing and are left out.
        for into in into.chunks_mut(LANES) {
            let words = std::array::from_fn(|lane| word.wrapping_add(step.wrapping_mul(lane as u64)) as u32);
            for (into, image) in into.iter_mut().zip(self.forward(words)) {
                *into = image as usize;
            }
            word = word.wrapping_add(step.wrapping_mul(LANES as u64));
        }
    }

    #[inline]
    fn forward(&self, words: [u32; LANES]) -> [u32; LANES] {
        let mut left = words.map(|word| word >> self.right_bits);
        let mut right = words.map(|word| word & self.right_mask);
        for [left_values, right_values] in &self.rounds {
            for lane in 0..LANES {
                let sum = left[lane].wrapping_add(left_values[usize::from(right[lane] as u16)]);
                // A sum that is still negative is the larger number, until the modulus is added.
                left[lane] = sum.min(sum.wrapping_add(self.left_modulus));
                right[lane] ^= right_values[usize::from(left[lane] as u16)];
            }
        }
        std::array::from_fn(|lane| (left[lane] << self.right_bits) | right[lane])
    }
}

fn table() -> Table {
    // Not through an array on the stack, which would be copied, and so touched, whole.
    vec![0; 1 << u16::BITS].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it has that length"))
}
