//! [`generator_words`]: the state of another library's Mersenne Twister for one sample.

use super::key_stream::{KeyStream, Purpose, mix};

/// Number of state words of a Mersenne Twister, as used by Python's `random`, NumPy, and torch.
pub const GENERATOR_WORDS: usize = 624;

/// The generator that a state is for: draws from different generators are unrelated.
#[derive(Clone, Copy)]
pub enum GeneratorStream {
    /// The global generator of Python's `random`.
    GlobalPython = 1,
    /// The global generator of NumPy.
    GlobalNumpy = 2,
    /// The global generator of torch, on the CPU.
    GlobalTorch = 3,
    /// The sample's own generator for Python.
    SamplePython = 4,
    /// The sample's own generator for NumPy.
    SampleNumpy = 5,
    /// The sample's own generator for torch.
    SampleTorch = 6,
}

/// Fills `words` with the state for (`key`, `stream`); `key` is a sample's key, and every value is valid.
///
/// The words are as random as a twister's output, so it may use them immediately (its position is the first of them):
/// the first 624 draws are then these words, tempered, and do not require regenerating the state, which costs more than
/// filling it here. Values never change between versions, platforms, or threads.
///
/// Source: sfc32 of Chris Doty-Humphrey's PractRand, sixteen of them in parallel, which the compiler vectorizes without
/// needing a vector multiplication. Each starts from 128 bits that are already mixed, so no warm-up is needed.
pub fn generator_words(key: u64, stream: GeneratorStream, words: &mut [u32; GENERATOR_WORDS]) {
    let [upper, lower] = KeyStream::new(Purpose::Generator, key, stream as u64).next_pair();
    let (mut a, mut b, mut c, mut count) = ([0; LANES], [0; LANES], [0; LANES], [0; LANES]);
    for lane in 0..LANES {
        let step = STEP.wrapping_mul(lane as u64);
        [a[lane], b[lane]] = halves(mix(upper.wrapping_add(step)));
        [c[lane], count[lane]] = halves(mix(lower.wrapping_add(step)));
    }
    for row in words.as_chunks_mut::<LANES>().0 {
        for lane in 0..LANES {
            let sum = a[lane].wrapping_add(b[lane]).wrapping_add(count[lane]);
            count[lane] = count[lane].wrapping_add(1);
            a[lane] = b[lane] ^ (b[lane] >> 9);
            b[lane] = c[lane].wrapping_add(c[lane] << 3);
            c[lane] = c[lane].rotate_left(21).wrapping_add(sum);
            row[lane] = sum;
        }
    }
}

/// The size of a state is a multiple of this.
const LANES: usize = 16;
const _: () = assert!(GENERATOR_WORDS.is_multiple_of(LANES));

/// The step of SplitMix64: odd, so that all lanes start differently.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn halves(word: u64) -> [u32; 2] {
    [(word & u64::from(u32::MAX)) as u32, (word >> u32::BITS) as u32]
}
