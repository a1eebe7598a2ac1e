//! [`RoundTables`]: the rounds of a Feistel network, looked up instead of computed.

use super::feistel::{DOUBLE_ROUNDS, FeistelNetwork};

/// What every round of a [`FeistelNetwork`] does to every half that there is.
///
/// A half has about as many values as the square root of the length, so the rounds of 10^6 words fit into the fastest
/// cache and those of 10^9 into the next, and a word costs eight look-ups instead of twenty multiplications. Words are computed several at a time:
/// each look-up waits for the one before it in its own word, never for another word.
#[derive(Clone, Debug)]
pub(super) enum RoundTables {
    /// Halves of 8 bits: lengths up to 2^16. Little enough memory for a permutation that is read once and forgotten.
    Narrow(Tables<{ 1 << 8 }>),
    /// Halves of 16 bits. What is never written takes no memory, because fresh memory is mapped when it is first touched.
    Wide(Tables<{ 1 << 16 }>),
}

/// How many words are under way together: enough to hide the look-ups' latency, few enough for the registers.
const LANES: usize = 12;

impl RoundTables {
    /// The tables of `network`; nothing when a half of it is wider than 16 bits.
    pub(super) fn new(network: &FeistelNetwork) -> Option<Self> {
        Tables::new(network).map(Self::Narrow).or_else(|| Tables::new(network).map(Self::Wide))
    }

    /// Whether the tables of `network` would be narrow.
    pub(super) fn are_narrow(network: &FeistelNetwork) -> bool {
        Tables::<{ 1 << 8 }>::fit(network)
    }

    /// Writes the images of the words `start`, `start + step` and so on, which must be in the domain.
    pub(super) fn forward_all(&self, start: u64, step: u64, into: &mut [usize]) {
        match self {
            Self::Narrow(tables) => tables.forward_all(start, step, into),
            Self::Wide(tables) => tables.forward_all(start, step, into),
        }
    }
}

/// Tables with room for halves below `ROOM`, a power of two.
#[derive(Clone, Debug)]
pub(super) struct Tables<const ROOM: usize> {
    /// For each double round: what is added to the left half, less the modulus, and what is xored to the right one.
    rounds: [[Box<[u32; ROOM]>; 2]; DOUBLE_ROUNDS],
    left_modulus: u32,
    right_bits: u32,
    right_mask: u32,
}

impl<const ROOM: usize> Tables<ROOM> {
    fn fit(network: &FeistelNetwork) -> bool {
        network.left_modulus() <= ROOM as u64 && network.right_bits() <= ROOM.ilog2()
    }

    fn new(network: &FeistelNetwork) -> Option<Self> {
        if !Self::fit(network) {
            return None;
        }
        let (left_modulus, right_bits) = (network.left_modulus() as u32, network.right_bits());
        let mut rounds = std::array::from_fn(|_| [table(), table()]);
        for (round, [left_values, right_values]) in rounds.iter_mut().enumerate() {
            for (right, value) in left_values[..1 << right_bits].iter_mut().enumerate() {
                *value = (network.left_value_in(round, right as u64) as u32).wrapping_sub(left_modulus);
            }
            for (left, value) in right_values[..left_modulus as usize].iter_mut().enumerate() {
                *value = network.right_value_in(round, left as u64) as u32;
            }
        }
        Some(Tables { rounds, left_modulus, right_bits, right_mask: (1 << right_bits) - 1 })
    }

    fn forward_all(&self, start: u64, step: u64, into: &mut [usize]) {
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
        // The mask changes nothing: it shows that no look-up needs a check.
        let place = |half: u32| half as usize & (ROOM - 1);
        for [left_values, right_values] in &self.rounds {
            for lane in 0..LANES {
                let sum = left[lane].wrapping_add(left_values[place(right[lane])]);
                // A sum that is still negative is the larger number, until the modulus is added.
                left[lane] = sum.min(sum.wrapping_add(self.left_modulus));
                right[lane] ^= right_values[place(left[lane])];
            }
        }
        std::array::from_fn(|lane| (left[lane] << self.right_bits) | right[lane])
    }
}

fn table<const ROOM: usize>() -> Box<[u32; ROOM]> {
    // Not through an array on the stack, which would be copied, and so touched, whole.
    vec![0; ROOM].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it has that length"))
}
