//! [`GlobalGenerators`]: the global random number generators of the process, set, saved and put back in microseconds.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};
use sluicegate::internal::{GENERATOR_WORDS, GeneratorStream};

use super::mersenne::{Mersenne, MersennePlaces, MersenneState};
use super::torch_generator::{TorchDoor, TorchPlaces, TorchState};

/// The way to one generator.
enum Door {
    /// There is none: nothing is set, and its state is empty.
    Closed,
    Mersenne(Mersenne),
    Torch(TorchDoor),
    /// A Python object that goes the library's public way, by the methods `seed(state)`, `take()` and `put(state)`.
    Public(Py<PyAny>),
}

impl Door {
    /// `places` is None, a tuple of what the fast way needs, or an object that goes the public way.
    fn new(places: Option<Bound<'_, PyAny>>, stream: GeneratorStream) -> PyResult<Self> {
        let Some(places) = places else { return Ok(Self::Closed) };
        let py = places.py();
        if !places.is_instance_of::<PyTuple>() {
            return Ok(Self::Public(places.unbind()));
        }
        Ok(match stream {
            GeneratorStream::GlobalTorch => Self::Torch(TorchDoor::new(py, places.extract::<TorchPlaces>()?)?),
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

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
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

    fn put(&self, state: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = state.py();
        match self {
            Self::Closed => Ok(()),
            Self::Mersenne(generator) => generator.put(py, &MersenneState::from_bytes(state.as_bytes())?),
            Self::Torch(generator) => generator.put(py, &TorchState::from_bytes(state.as_bytes())?),
            Self::Public(generator) => generator.bind(py).call_method1(intern!(py, "put"), (state,)).map(drop),
        }
    }
}

/// The states of Python's, NumPy's and torch's generator.
type States<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The global generators of Python's `random`, NumPy and torch. They belong to the process: any thread may call, and each sees
/// what the others did. Python and torch keep a thread that draws meanwhile from tearing a state apart, and so does
/// NumPy's lock, which is taken here too; whether it draws before or after is up to the threads.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct GlobalGenerators {
    python: Door,
    numpy: Door,
    torch: Door,
}

#[pymethods]
impl GlobalGenerators {
    /// The generators that the three describe; None for one that is left alone.
    #[new]
    #[pyo3(signature = (python=None, numpy=None, torch=None))]
    fn new(
        python: Option<Bound<'_, PyAny>>,
        numpy: Option<Bound<'_, PyAny>>,
        torch: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            python: Door::new(python, GeneratorStream::GlobalPython)?,
            numpy: Door::new(numpy, GeneratorStream::GlobalNumpy)?,
            torch: Door::new(torch, GeneratorStream::GlobalTorch)?,
        })
    }

    /// Sets all to the states that belong to `key`.
    fn seed(&self, py: Python<'_>, key: u64) -> PyResult<()> {
        self.python.seed(py, key, GeneratorStream::GlobalPython)?;
        self.numpy.seed(py, key, GeneratorStream::GlobalNumpy)?;
        self.torch.seed(py, key, GeneratorStream::GlobalTorch)
    }

    /// The states of all.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<States<'py>> {
        Ok((self.python.take(py)?, self.numpy.take(py)?, self.torch.take(py)?))
    }

    /// Sets all to states that were taken.
    fn put(&self, states: States<'_>) -> PyResult<()> {
        self.python.put(&states.0)?;
        self.numpy.put(&states.1)?;
        self.torch.put(&states.2)
    }

    /// Of each, whether its state is another than the one that was taken.
    fn moved(&self, states: States<'_>) -> PyResult<(bool, bool, bool)> {
        Ok((self.python.moved(&states.0)?, self.numpy.moved(&states.1)?, self.torch.moved(&states.2)?))
    }
}

/// The key of the sample at `index`: an integer, and of a negative one its two's complement.
#[pyfunction]
pub(super) fn sample_key(seed: u64, epoch: u64, index: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number = match index.extract::<u64>() {
        Ok(number) => number,
        Err(error) if error.is_instance_of::<PyTypeError>(index.py()) => return Err(error),
        Err(_) => index.extract::<i64>()? as u64,
    };
    Ok(sluicegate::sample_key(seed, epoch, number))
}

/// The 624 words of 32 bits, little end first, that belong to `key` and to the stream of this name.
#[pyfunction]
pub(super) fn generator_words<'py>(py: Python<'py>, key: u64, stream: &str) -> PyResult<Bound<'py, PyBytes>> {
    let stream = match stream {
        "global python" => GeneratorStream::GlobalPython,
        "global numpy" => GeneratorStream::GlobalNumpy,
        "global torch" => GeneratorStream::GlobalTorch,
        "sample python" => GeneratorStream::SamplePython,
        "sample numpy" => GeneratorStream::SampleNumpy,
        "sample torch" => GeneratorStream::SampleTorch,
        _ => return Err(PyValueError::new_err(format!("no stream is called {stream:?}"))),
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

/// The sample's own generator for torch that belongs to `key`, in the form that `torch.Generator.set_state` takes.
#[pyfunction]
pub(super) fn torch_state<'py>(py: Python<'py>, key: u64) -> Bound<'py, PyByteArray> {
    let state = TorchState::of_key(key, GeneratorStream::SampleTorch);
    PyByteArray::new(py, state.form().map(u32::to_ne_bytes).as_flattened())
}
