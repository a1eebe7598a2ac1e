//! [`Mersenne`]: a generator of Python's `random` or NumPy's `RandomState`, whose words are accessed in place.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use sluicegate::internal::{ForeignWords, GENERATOR_WORDS, GeneratorStream, PythonGenerator, generator_words};

use crate::error::to_python;
use crate::memory::words_at;

/// Size of a saved state in bytes: the words, the position, a flag for the kept normal deviate, and this deviate.
const STATE_BYTES: usize = 4 * (GENERATOR_WORDS + 2) + 8;

/// Everything that such a generator's draws depend on.
pub(super) struct MersenneState {
    words: [u32; GENERATOR_WORDS],
    /// The next word to draw; `GENERATOR_WORDS` if all were drawn.
    next: u32,
    /// The second of two normal deviates that were generated together, as bits.
    gauss: Option<u64>,
}

impl MersenneState {
    /// Returns the state for `key`.
    pub(super) fn of_key(key: u64, stream: GeneratorStream) -> Self {
        let mut words = [0; GENERATOR_WORDS];
        generator_words(key, stream, &mut words);
        Self { words, next: 0, gauss: None }
    }

    /// Parses a saved state.
    pub(super) fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        if bytes.len() != STATE_BYTES {
            let message =
                format!("expected the state of a Mersenne Twister of {STATE_BYTES} bytes, got {}", bytes.len());
            return Err(PyValueError::new_err(message));
        }
        let (words, [next, has_gauss, low, high]) = numbers(bytes);
        if next as usize > GENERATOR_WORDS || has_gauss > 1 {
            let message = format!(
                "invalid state of a Mersenne Twister: position {next} of {GENERATOR_WORDS} words and {has_gauss} \
                 normal deviates"
            );
            return Err(PyValueError::new_err(message));
        }
        let gauss = (has_gauss == 1).then_some((u64::from(high) << u32::BITS) | u64::from(low));
        Ok(Self { words, next, gauss })
    }

    /// Returns the state as bytes, the same on every machine.
    pub(super) fn to_bytes(&self) -> [u8; STATE_BYTES] {
        let gauss = self.gauss.unwrap_or_default();
        bytes(&self.words, [self.next, self.gauss.is_some().into(), gauss as u32, (gauss >> u32::BITS) as u32])
    }

    /// Returns a generator in Rust that draws what Python's would.
    pub(super) fn generator(&self) -> PythonGenerator {
        PythonGenerator::from_parts(self.words, self.next as usize)
    }

    /// Returns the state of Python's generator, which was in this state, once it has moved to where `generator` is.
    pub(super) fn moved_to(&self, generator: &PythonGenerator) -> Self {
        let (&words, next) = generator.parts();
        Self { words, next: next as u32, gauss: self.gauss }
    }
}

/// Where the kept normal deviate is stored.
enum Gauss {
    /// `random.Random`'s attribute `gauss_next`.
    Attribute(Py<PyAny>),
    /// NumPy's flag and number, and the lock that keeps other threads from drawing.
    Memory { flag: ForeignWords, value: ForeignWords, acquire: Py<PyAny>, release: Py<PyAny> },
}

/// Addresses in `random.Random` or `RandomState` objects, as passed by the package: the words and the position; for
/// NumPy also the flag and the value of the kept deviate, and the methods of its lock; and the object to hold.
#[derive(FromPyObject)]
pub(super) enum MersennePlaces {
    Numpy(usize, usize, usize, usize, Py<PyAny>, Py<PyAny>, Py<PyAny>),
    Python(usize, usize, Py<PyAny>),
}

/// A generator of one of these two.
pub(super) struct Mersenne {
    words: ForeignWords,
    next: ForeignWords,
    gauss: Gauss,
    _owner: Option<Py<PyAny>>,
}

impl Mersenne {
    pub(super) fn new(py: Python<'_>, places: MersennePlaces) -> PyResult<Self> {
        let words_at = |address, len| words_at(address, len).map_err(|error| to_python(py, error));
        let (words, next, gauss, owner) = match places {
            MersennePlaces::Python(words, next, instance) => (words, next, Gauss::Attribute(instance), None),
            MersennePlaces::Numpy(words, next, flag, value, acquire, release, owner) => {
                let gauss = Gauss::Memory { flag: words_at(flag, 1)?, value: words_at(value, 2)?, acquire, release };
                (words, next, gauss, Some(owner))
            }
        };
        Ok(Self { words: words_at(words, GENERATOR_WORDS)?, next: words_at(next, 1)?, gauss, _owner: owner })
    }

    /// Copies the state.
    pub(super) fn take(&self, py: Python<'_>) -> PyResult<MersenneState> {
        let mut state = MersenneState { words: [0; GENERATOR_WORDS], next: 0, gauss: None };
        match &self.gauss {
            Gauss::Attribute(instance) => {
                self.read_words(&mut state);
                let gauss: Option<f64> = instance.bind(py).getattr(intern!(py, "gauss_next"))?.extract()?;
                state.gauss = gauss.map(f64::to_bits);
            }
            Gauss::Memory { flag, value, acquire, release } => {
                acquire.call0(py)?;
                self.read_words(&mut state);
                let (mut has, mut bits) = ([0], [0; 2]);
                flag.read(&mut has);
                value.read(&mut bits);
                release.call0(py)?;
                state.gauss = (has[0] != 0).then_some(from_halves(bits));
            }
        }
        Ok(state)
    }

    /// Replaces the state.
    pub(super) fn put(&self, py: Python<'_>, state: &MersenneState) -> PyResult<()> {
        match &self.gauss {
            Gauss::Attribute(instance) => {
                instance.bind(py).setattr(intern!(py, "gauss_next"), state.gauss.map(f64::from_bits))?;
                self.write_words(state);
            }
            Gauss::Memory { flag, value, acquire, release } => {
                acquire.call0(py)?;
                self.write_words(state);
                flag.write(&[state.gauss.is_some().into()]);
                value.write(&to_halves(state.gauss.unwrap_or_default()));
                release.call0(py)?;
            }
        }
        Ok(())
    }

    fn read_words(&self, state: &mut MersenneState) {
        self.words.read(&mut state.words);
        self.next.read(std::slice::from_mut(&mut state.next));
    }

    fn write_words(&self, state: &MersenneState) {
        self.words.write(&state.words);
        self.next.write(&[state.next]);
    }
}

/// Returns the words and other numbers of a state as bytes, little-endian.
pub(super) fn bytes<const REST: usize, const BYTES: usize>(
    words: &[u32; GENERATOR_WORDS],
    rest: [u32; REST],
) -> [u8; BYTES] {
    const { assert!(BYTES == 4 * (GENERATOR_WORDS + REST)) };
    let mut bytes = [0; BYTES];
    let (for_words, for_rest) = bytes.as_chunks_mut::<4>().0.split_at_mut(GENERATOR_WORDS);
    for (into, word) in for_words.iter_mut().zip(words) {
        *into = word.to_le_bytes();
    }
    for (into, number) in for_rest.iter_mut().zip(rest) {
        *into = number.to_le_bytes();
    }
    bytes
}

/// Returns the arguments of the call of [`bytes()`] that returned these bytes, whose number must be right.
pub(super) fn numbers<const REST: usize>(bytes: &[u8]) -> ([u32; GENERATOR_WORDS], [u32; REST]) {
    let (mut words, mut rest) = ([0; GENERATOR_WORDS], [0; REST]);
    let (of_words, of_rest) = bytes.as_chunks::<4>().0.split_at(GENERATOR_WORDS);
    for (word, &number) in words.iter_mut().zip(of_words) {
        *word = u32::from_le_bytes(number);
    }
    for (number, &bytes) in rest.iter_mut().zip(of_rest) {
        *number = u32::from_le_bytes(bytes);
    }
    (words, rest)
}

/// Returns a 64-bit number that was read from memory as two words.
pub(super) fn from_halves(halves: [u32; 2]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&halves[0].to_ne_bytes());
    bytes[4..].copy_from_slice(&halves[1].to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Returns a 64-bit number as the two words that it occupies in memory.
pub(super) fn to_halves(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    std::array::from_fn(|half| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * half + byte])))
}
