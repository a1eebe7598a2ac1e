//! [`GlobalGenerators`]: sets, saves, and restores the process's global random number generators in microseconds.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};
use sluicegate::internal::{GENERATOR_WORDS, GeneratorStream};

use super::mersenne::{Mersenne, MersennePlaces, MersenneState};
use super::torch_generator::{TorchAccess, TorchPlaces, TorchState};

/// Access to one generator.
pub(super) enum GeneratorAccess {
    /// No access: nothing is set, and its state is empty.
    Closed,
    Mersenne(Mersenne),
    Torch(TorchAccess),
    /// A Python object that uses the library's public API, with methods `seed(state)`, `take()`, and `put(state)`.
    Public(Py<PyAny>),
}

impl GeneratorAccess {
    /// `places` is None, a tuple for fast access, or an object that uses the public API.
    pub(super) fn new(places: Option<Bound<'_, PyAny>>, stream: GeneratorStream) -> PyResult<Self> {
        let Some(places) = places else { return Ok(Self::Closed) };
        let py = places.py();
        if !places.is_instance_of::<PyTuple>() {
            return Ok(Self::Public(places.unbind()));
        }
        Ok(match stream {
            GeneratorStream::GlobalTorch => Self::Torch(TorchAccess::new(py, places.extract::<TorchPlaces>()?)?),
            _ => Self::Mersenne(Mersenne::new(py, places.extract::<MersennePlaces>()?)?),
        })
    }

    fn seed(&self, py: Python<'_>, key: u64, stream: GeneratorStream) -> PyResult<()> {
        match self {
            Self::Closed => Ok(()),
            Self::Mersenne(generator) => generator.put(py, &MersenneState::of_key(key, stream)),
            Self::Torch(generator) => generator.put(py, &TorchState::of_key(key, stream)),
            Self::Public(generator) => {
                let state = match stream {
                    GeneratorStream::GlobalTorch => PyBytes::new(py, &TorchState::of_key(key, stream).to_bytes()),
                    _ => PyBytes::new(py, &MersenneState::of_key(key, stream).to_bytes()),
                };
                generator.bind(py).call_method1(intern!(py, "seed"), (state,)).map(drop)
            }
        }
    }

    pub(super) fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match self {
            Self::Closed => Ok(PyBytes::new(py, b"")),
            Self::Mersenne(generator) => Ok(PyBytes::new(py, &generator.take(py)?.to_bytes())),
            Self::Torch(generator) => Ok(PyBytes::new(py, &generator.take(py)?.to_bytes())),
            Self::Public(generator) => Ok(generator.bind(py).call_method0(intern!(py, "take"))?.cast_into()?),
        }
    }

    fn moved(&self, state: &Bound<'_, PyBytes>) -> PyResult<bool> {
        let py = state.py();
        Ok(match self {
            Self::Mersenne(generator) => generator.take(py)?.to_bytes() != *state.as_bytes(),
            Self::Torch(generator) => generator.take(py)?.to_bytes() != *state.as_bytes(),
            Self::Closed | Self::Public(_) => self.take(py)?.as_bytes() != state.as_bytes(),
        })
    }

    pub(super) fn put(&self, state: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = state.py();
        match self {
            Self::Closed => Ok(()),
            Self::Mersenne(generator) => generator.put(py, &MersenneState::from_bytes(state.as_bytes())?),
            Self::Torch(generator) => generator.put(py, &TorchState::from_bytes(state.as_bytes())?),
            Self::Public(generator) => generator.bind(py).call_method1(intern!(py, "put"), (state,)).map(drop),
        }
    }
}

/// The states of Python's, NumPy's, and torch's generators.
type States<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The global generators of Python's `random`, NumPy, and torch. They belong to the process: any thread may call, and
/// sees the changes of the others. A thread that draws meanwhile cannot tear a state: Python and torch prevent it, and
/// NumPy's lock is taken here. Which of the two comes first is undefined.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct GlobalGenerators {
    python: GeneratorAccess,
    numpy: GeneratorAccess,
    torch: GeneratorAccess,
}

#[pymethods]
impl GlobalGenerators {
    /// Returns the generators that the arguments describe; None leaves one alone.
    #[new]
    #[pyo3(signature = (python=None, numpy=None, torch=None))]
    fn new(
        python: Option<Bound<'_, PyAny>>,
        numpy: Option<Bound<'_, PyAny>>,
        torch: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            python: GeneratorAccess::new(python, GeneratorStream::GlobalPython)?,
            numpy: GeneratorAccess::new(numpy, GeneratorStream::GlobalNumpy)?,
            torch: GeneratorAccess::new(torch, GeneratorStream::GlobalTorch)?,
        })
    }

    /// Sets all generators to the states for `key`.
    fn seed(&self, py: Python<'_>, key: u64) -> PyResult<()> {
        self.python.seed(py, key, GeneratorStream::GlobalPython)?;
        self.numpy.seed(py, key, GeneratorStream::GlobalNumpy)?;
        self.torch.seed(py, key, GeneratorStream::GlobalTorch)
    }

    /// Returns the states of all generators.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<States<'py>> {
        Ok((self.python.take(py)?, self.numpy.take(py)?, self.torch.take(py)?))
    }

    /// Returns the state of torch's generator alone, which takes a fraction of the time.
    fn take_torch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.torch.take(py)
    }

    /// Restores states that [`take`](Self::take) returned.
    fn put(&self, states: States<'_>) -> PyResult<()> {
        self.python.put(&states.0)?;
        self.numpy.put(&states.1)?;
        self.torch.put(&states.2)
    }

    /// Returns, for each generator, true if its state differs from the given one.
    fn moved(&self, states: States<'_>) -> PyResult<(bool, bool, bool)> {
        Ok((self.python.moved(&states.0)?, self.numpy.moved(&states.1)?, self.torch.moved(&states.2)?))
    }
}

/// Returns the key of the sample at `index`: an integer, or the two's complement of a negative one.
#[pyfunction]
pub(crate) fn sample_key(seed: u64, epoch: u64, index: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number = match index.extract::<u64>() {
        Ok(number) => number,
        Err(error) if error.is_instance_of::<PyTypeError>(index.py()) => return Err(error),
        Err(_) => index.extract::<i64>()? as u64,
    };
    Ok(sluicegate::sample_key(seed, epoch, number))
}

/// Returns the 624 words of 32 bits, little-endian, for `key` and the stream with this name.
#[pyfunction]
pub(crate) fn generator_words<'py>(py: Python<'py>, key: u64, stream: &str) -> PyResult<Bound<'py, PyBytes>> {
    let stream = match stream {
        "global python" => GeneratorStream::GlobalPython,
        "global numpy" => GeneratorStream::GlobalNumpy,
        "global torch" => GeneratorStream::GlobalTorch,
        "sample python" => GeneratorStream::SamplePython,
        "sample numpy" => GeneratorStream::SampleNumpy,
        "sample torch" => GeneratorStream::SampleTorch,
        _ => return Err(PyValueError::new_err(format!("unknown stream {stream:?}"))),
    };
    let mut words = [0; GENERATOR_WORDS];
    sluicegate::internal::generator_words(key, stream, &mut words);
    PyBytes::new_with(py, size_of_val(&words), |bytes| {
        for (into, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *into = word.to_le_bytes();
        }
        Ok(())
    })
}

/// Returns the sample's own torch generator for `key`, in the form that `torch.Generator.set_state` takes.
#[pyfunction]
pub(crate) fn torch_state<'py>(py: Python<'py>, key: u64) -> Bound<'py, PyByteArray> {
    let state = TorchState::of_key(key, GeneratorStream::SampleTorch);
    PyByteArray::new(py, state.form().map(u32::to_ne_bytes).as_flattened())
}
