//! [`TorchState`] and [`TorchAccess`]: a torch generator on the CPU, through the state that it exports and imports.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use sluicegate::TorchGenerator;
use sluicegate::internal::{ForeignWords, GENERATOR_WORDS, GeneratorStream, generator_words};

use super::mersenne::{bytes, from_halves, numbers, to_halves};
use crate::error::to_python;
use crate::memory::words_at;

/// Size of a saved state in bytes: the words, the position, the number of words left, the seed, the two kept normal
/// deviates, and which of them exist.
const STATE_BYTES: usize = 4 * (GENERATOR_WORDS + 2) + 8 + 8 + 4 + 4;

/// Torch's own format, in words of 32 bits: each state word is 64 bits wide, for historical reasons (Lua).
const FORM_WORDS: usize = 1264;
const SEED: usize = 0;
const LEFT: usize = 2;
const IS_SEEDED: usize = 3;
const NEXT: usize = 4;
const WORDS: usize = 6;
const DOUBLE: usize = 1256;
const HAS_DOUBLE: usize = 1260;
const FLOAT: usize = 1262;
const HAS_FLOAT: usize = 1263;

/// The position of the low half of 64 bits in memory.
const LOW: usize = cfg!(target_endian = "big") as usize;

/// Everything that such a generator's draws depend on, and the seed that it reports.
pub(crate) struct TorchState {
    words: [u32; GENERATOR_WORDS],
    next: u32,
    /// One more than the number of draws until the generator regenerates its words.
    left: u32,
    seed: u64,
    /// The second of two normal deviates that were generated together, as bits: of float64 and of float32.
    double: Option<u64>,
    float: Option<u32>,
}

impl TorchState {
    /// Returns the state for `key`.
    pub(crate) fn of_key(key: u64, stream: GeneratorStream) -> Self {
        let mut words = [0; GENERATOR_WORDS];
        generator_words(key, stream, &mut words);
        // Torch can't represent that all words are still to be drawn: regenerating them always draws one.
        Self { words, next: 1, left: GENERATOR_WORDS as u32, seed: key, double: None, float: None }
    }

    /// Parses a saved state.
    pub(crate) fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        if bytes.len() != STATE_BYTES {
            let message =
                format!("expected the state of a torch.Generator of {STATE_BYTES} bytes, got {}", bytes.len());
            return Err(PyValueError::new_err(message));
        }
        let (words, [next, left, seed_low, seed_high, double_low, double_high, float, kept]) = numbers(bytes);
        // Torch reads as many words as its count says, even past the end.
        let len = GENERATOR_WORDS as u32;
        if next > len || left == 0 || left > len || (left > 1 && next + left > len + 1) || kept > 3 {
            let message =
                format!("invalid state of a torch.Generator: position {next} with {left} of {len} words left");
            return Err(PyValueError::new_err(message));
        }
        let double = (u64::from(double_high) << u32::BITS) | u64::from(double_low);
        Ok(Self {
            words,
            next,
            left,
            seed: (u64::from(seed_high) << u32::BITS) | u64::from(seed_low),
            double: (kept & 1 != 0).then_some(double),
            float: (kept & 2 != 0).then_some(float),
        })
    }

    /// Returns the state as bytes, the same on every machine.
    pub(crate) fn to_bytes(&self) -> [u8; STATE_BYTES] {
        let double = self.double.unwrap_or_default();
        let kept = u32::from(self.double.is_some()) + 2 * u32::from(self.float.is_some());
        let (low, high) = (|number: u64| number as u32, |number: u64| (number >> u32::BITS) as u32);
        let (seed, float) = (self.seed, self.float.unwrap_or_default());
        bytes(&self.words, [self.next, self.left, low(seed), high(seed), low(double), high(double), float, kept])
    }

    /// Returns a generator in Rust that draws what torch's would.
    pub(crate) fn generator(&self) -> PyResult<TorchGenerator> {
        let left = self.left as usize - 1;
        // Torch draws all words in order: those left, if any, are the last ones.
        if left != 0 && self.next as usize + left != GENERATOR_WORDS {
            let message =
                format!("invalid state of a torch.Generator: position {} with {} words left", self.next, self.left);
            return Err(PyValueError::new_err(message));
        }
        Ok(TorchGenerator::from_parts(self.words, GENERATOR_WORDS - left, self.double.map(f64::from_bits)))
    }

    /// Returns the state of torch's generator, which was in this state, once it has moved to where `generator` is.
    pub(crate) fn moved_to(&self, generator: &TorchGenerator) -> Self {
        let (&words, next, kept) = generator.parts();
        let left = (GENERATOR_WORDS - next) as u32 + 1;
        // With no words left, a newly seeded torch generator is before the first word, not after the last one.
        let is_same = left == self.left && words == self.words;
        let next = if is_same { self.next } else { next as u32 };
        Self { words, next, left, seed: self.seed, double: kept.map(f64::to_bits), float: self.float }
    }

    fn from_form(form: &[u32; FORM_WORDS]) -> Self {
        let wide = |at: usize| from_halves([form[at], form[at + 1]]);
        let mut words = [0; GENERATOR_WORDS];
        for (word, wide) in words.iter_mut().zip(form[WORDS..].as_chunks::<2>().0) {
            *word = wide[LOW];
        }
        Self {
            words,
            next: wide(NEXT) as u32,
            left: form[LEFT],
            seed: wide(SEED),
            double: (form[HAS_DOUBLE] != 0).then(|| wide(DOUBLE)),
            // One byte, and three bytes of padding.
            float: (form[HAS_FLOAT].to_ne_bytes()[0] != 0).then_some(form[FLOAT]),
        }
    }

    /// Returns the state in torch's own format.
    pub(crate) fn form(&self) -> [u32; FORM_WORDS] {
        let mut form = [0; FORM_WORDS];
        let mut put = |at: usize, number: u64| form[at..at + 2].copy_from_slice(&to_halves(number));
        put(SEED, self.seed);
        put(NEXT, self.next.into());
        put(DOUBLE, self.double.unwrap_or_default());
        for (wide, &word) in form[WORDS..].as_chunks_mut::<2>().0.iter_mut().zip(&self.words) {
            wide[LOW] = word;
        }
        form[LEFT] = self.left;
        form[IS_SEEDED] = 1;
        form[HAS_DOUBLE] = self.double.is_some().into();
        form[FLOAT] = self.float.unwrap_or_default();
        form[HAS_FLOAT] = u32::from_ne_bytes([self.float.is_some().into(), 0, 0, 0]);
        form
    }
}

/// The methods `get_state` and `set_state` of a generator, a tensor of 5056 bytes for the latter that no other code
/// uses, and its address, as passed by the package.
#[derive(FromPyObject)]
pub(crate) struct TorchPlaces(Py<PyAny>, Py<PyAny>, Py<PyAny>, usize);

/// One torch generator.
pub(crate) struct TorchAccess {
    get_state: Py<PyAny>,
    set_state: Py<PyAny>,
    tensor: Py<PyAny>,
    form: ForeignWords,
}

impl TorchAccess {
    pub(crate) fn new(py: Python<'_>, places: TorchPlaces) -> PyResult<Self> {
        let TorchPlaces(get_state, set_state, tensor, address) = places;
        let form = words_at(address, FORM_WORDS).map_err(|error| to_python(py, error))?;
        Ok(Self { get_state, set_state, tensor, form })
    }

    /// Copies the state.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<TorchState> {
        let tensor = self.get_state.bind(py).call0()?;
        let address = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
        let mut form = [0; FORM_WORDS];
        words_at(address, FORM_WORDS).map_err(|error| to_python(py, error))?.read(&mut form);
        Ok(TorchState::from_form(&form))
    }

    /// Replaces the state.
    pub(crate) fn put(&self, py: Python<'_>, state: &TorchState) -> PyResult<()> {
        self.form.write(&state.form());
        self.set_state.call1(py, (&self.tensor,)).map(drop)
    }
}

/// Returns the result of `draw` for the torch generator of `given`, and moves it to where torch's own draws
/// would have left it. `given` is a tuple for fast access, or an object that uses the public API, with methods `take()`
/// and `put(state)`. If `draw` fails, nothing was drawn.
pub(crate) fn draw_from<T>(
    given: &Bound<'_, PyAny>,
    draw: impl FnOnce(&mut TorchGenerator) -> PyResult<T>,
) -> PyResult<T> {
    let py = given.py();
    if given.is_instance_of::<PyTuple>() {
        let access = TorchAccess::new(py, given.extract::<TorchPlaces>()?)?;
        let before = access.take(py)?;
        let mut generator = before.generator()?;
        let drawn = draw(&mut generator)?;
        access.put(py, &before.moved_to(&generator))?;
        return Ok(drawn);
    }
    let state: Bound<'_, PyBytes> = given.call_method0(intern!(py, "take"))?.cast_into()?;
    let before = TorchState::from_bytes(state.as_bytes())?;
    let mut generator = before.generator()?;
    let drawn = draw(&mut generator)?;
    given.call_method1(intern!(py, "put"), (PyBytes::new(py, &before.moved_to(&generator).to_bytes()),))?;
    Ok(drawn)
}
