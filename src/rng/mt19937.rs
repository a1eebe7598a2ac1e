//! [`TorchGenerator`]: torch's random number generator on the CPU.

use super::PythonGenerator;
use super::generator_words::{GeneratorStream, generator_words};

/// The same generator as `torch.Generator().manual_seed(seed)`, number for number.
///
/// Each method names the torch draw that it reproduces; mixed calls stay in step with torch if each has its
/// counterpart. Use it only to reproduce torch's numbers; for new uses of randomness, use
/// [`sample_key`](crate::sample_key).
///
/// Source: Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform pseudorandom number
/// generator", ACM TOMACS 8 (1998), seeded as in the authors' `init_genrand` of 2002.
///
/// # Example
/// ```
/// use sluicegate::TorchGenerator;
///
/// let mut generator = TorchGenerator::new(0);
/// // torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(0))
/// assert_eq!(generator.random_int64(), 900_450_186_894_289_455);
/// ```
#[derive(Clone, Debug)]
pub struct TorchGenerator {
    pub(super) state: [u32; STATE_WORDS],
    /// The index in `state` of the next word to draw; at `STATE_WORDS` all are used.
    pub(super) next: usize,
    /// The second of two normal deviates that were generated together.
    pub(super) kept_normal: Option<f64>,
    /// Python's generator of the same process, for transforms that draw from both.
    pub(super) python: Option<Box<PythonGenerator>>,
}

pub(super) const STATE_WORDS: usize = 624;
const SHIFT_WORDS: usize = 397;

/// From this range on `torch.randint` uses 64 bits per number, so that the bias of its remainder stays below 7 %.
const RANDINT_64_BITS_FROM: u64 = 1 << 28;

impl TorchGenerator {
    /// Returns the equivalent of `torch.Generator().manual_seed(seed)`. As in torch, only the low 32 bits of `seed`
    /// matter.
    pub fn new(seed: u64) -> Self {
        let mut state = [0; STATE_WORDS];
        state[0] = (seed & u64::from(u32::MAX)) as u32;
        for word in 1..STATE_WORDS {
            let before: u32 = state[word - 1];
            state[word] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(word as u32);
        }
        TorchGenerator { state, next: STATE_WORDS, kept_normal: None, python: None }
    }

    /// Returns the generator of the sample with this `key`, a key from [`sample_key`](crate::sample_key): the
    /// equivalent of `sluicegate.sample_rng().torch` in Python.
    #[cfg(feature = "image")]
    #[must_use]
    pub fn of_key(key: u64) -> Self {
        Self::of_stream(key, GeneratorStream::SampleTorch)
    }

    /// Returns torch's global generator as it is while a Python dataset fetches the sample with this `key`.
    pub(crate) fn of_global_key(key: u64) -> Self {
        Self::of_stream(key, GeneratorStream::GlobalTorch)
    }

    fn of_stream(key: u64, stream: GeneratorStream) -> Self {
        let mut state = [0; STATE_WORDS];
        generator_words(key, stream, &mut state);
        // Torch cannot represent a state whose first word is unused, so that word is never drawn, in Python either.
        TorchGenerator { state, next: 1, kept_normal: None, python: None }
    }

    /// Returns the generator whose next draws are `words` from `next` on.
    #[doc(hidden)]
    #[must_use]
    pub fn from_parts(state: [u32; STATE_WORDS], next: usize, kept_normal: Option<f64>) -> Self {
        TorchGenerator { state, next: next.min(STATE_WORDS), kept_normal, python: None }
    }

    /// Returns the arguments from which [`from_parts`](Self::from_parts) creates the same generator.
    #[doc(hidden)]
    #[must_use]
    pub fn parts(&self) -> (&[u32; STATE_WORDS], usize, Option<f64>) {
        (&self.state, self.next, self.kept_normal)
    }

    /// Adds Python's generator, for transforms that draw from both.
    #[doc(hidden)]
    #[must_use]
    pub fn with_python(self, python: PythonGenerator) -> Self {
        Self { python: Some(Box::new(python)), ..self }
    }

    /// Returns Python's generator, if it was added.
    #[doc(hidden)]
    pub fn python(&mut self) -> Option<&mut PythonGenerator> {
        self.python.as_deref_mut()
    }

    /// Draws the next 32 bits, from which torch makes every draw.
    #[inline]
    pub fn random_u32(&mut self) -> u32 {
        if self.next == STATE_WORDS {
            self.refill();
        }
        let word = self.state[self.next];
        self.next += 1;
        temper(word)
    }

    /// Draws the next 64 bits: torch draws the high half first.
    #[inline]
    pub fn random_u64(&mut self) -> u64 {
        let high = self.random_u32();
        let low = self.random_u32();
        (u64::from(high) << u32::BITS) | u64::from(low)
    }

    /// Returns `torch.empty((), dtype=torch.int64).random_()`, from 0 to 2^63 - 1: this is how the base seed of a
    /// loader and the seed of a random sampler are drawn.
    #[inline]
    pub fn random_int64(&mut self) -> i64 {
        (self.random_u64() & i64::MAX as u64) as i64
    }

    /// Returns `torch.randint(range, (1,))`: a number below `range`.
    ///
    /// # Panics
    /// If `range` is 0, where torch raises an error.
    #[inline]
    pub fn random_below(&mut self, range: u64) -> u64 {
        if range < RANDINT_64_BITS_FROM { u64::from(self.random_u32()) % range } else { self.random_u64() % range }
    }

    /// Advances the generator as if [`random_u32`](Self::random_u32) had been called `count` times, at a fifth of the
    /// cost.
    pub fn skip(&mut self, count: u64) {
        let mut left = count;
        loop {
            let ready = (STATE_WORDS - self.next) as u64;
            if left <= ready {
                self.next += left as usize;
                return;
            }
            left -= ready;
            self.refill();
        }
    }

    fn refill(&mut self) {
        // Three loops without a remainder or a branch on the index, so that the compiler can vectorize them.
        for word in 0..STATE_WORDS - SHIFT_WORDS {
            self.state[word] = self.state[word + SHIFT_WORDS] ^ twist(self.state[word], self.state[word + 1]);
        }
        for word in STATE_WORDS - SHIFT_WORDS..STATE_WORDS - 1 {
            self.state[word] =
                self.state[word + SHIFT_WORDS - STATE_WORDS] ^ twist(self.state[word], self.state[word + 1]);
        }
        self.state[STATE_WORDS - 1] = self.state[SHIFT_WORDS - 1] ^ twist(self.state[STATE_WORDS - 1], self.state[0]);
        self.next = 0;
    }
}

#[inline]
fn twist(upper: u32, lower: u32) -> u32 {
    let mixed = (upper & 0x8000_0000) | (lower & 0x7fff_ffff);
    (mixed >> 1) ^ (0x9908_b0df & (lower & 1).wrapping_neg())
}

#[inline]
fn temper(mut word: u32) -> u32 {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c_5680;
    word ^= (word << 15) & 0xefc6_0000;
    word ^ (word >> 18)
}
