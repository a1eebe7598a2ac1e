//! [`SampleDraws`]: the generators that random samples draw from, one after another.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use sluicegate::internal::{Drawing, GeneratorPlace};

use super::error::to_python;
use super::mersenne::{Mersenne, MersennePlaces, MersenneState};
use super::torch_generator::draw_from;

/// Access to torch's generator (see [`draw_from`]), and to Python's: a tuple for fast access, or an object that uses the
/// public API, with methods `take()` and `put(state)`.
pub(super) struct SampleDraws {
    torch: Py<PyAny>,
    python: Option<Py<PyAny>>,
}

impl SampleDraws {
    pub(super) fn new(torch: Py<PyAny>, python: Option<Py<PyAny>>) -> Self {
        Self { torch, python }
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { torch: self.torch.clone_ref(py), python: self.python.as_ref().map(|each| each.clone_ref(py)) }
    }

    /// Follows the draws of the samples at `indices` in sequence, and moves the generators past them.
    ///
    /// # Errors
    /// If the data that the draws depend on could not be read; nothing was drawn.
    pub(super) fn follow(
        &self,
        py: Python<'_>,
        drawing: &dyn Drawing,
        indices: &[usize],
    ) -> PyResult<Arc<[GeneratorPlace]>> {
        draw_from(self.torch.bind(py), |generator| {
            let pythons = self.python.as_ref().filter(|_| drawing.draws_from_python());
            let pythons = pythons.map(|access| PythonAccess::new(access.bind(py))).transpose()?;
            let before = pythons.as_ref().map(|access| access.take()).transpose()?;
            if let Some(before) = &before {
                *generator = generator.clone().with_python(before.generator());
            }
            let mut places: Vec<GeneratorPlace> = Vec::with_capacity(indices.len());
            for &index in indices {
                places.push(generator.place(places.last()));
                drawing.advance(index, generator).map_err(|error| to_python(py, error))?;
            }
            if let (Some(access), Some(before), Some(python)) = (pythons, before, generator.python()) {
                access.put(&before.moved_to(python))?;
            }
            Ok(places.into())
        })
    }
}

/// Access to a generator of Python's.
enum PythonAccess<'a, 'py> {
    Fast(Python<'py>, Mersenne),
    Public(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> PythonAccess<'a, 'py> {
    fn new(given: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let py = given.py();
        if !given.is_instance_of::<PyTuple>() {
            return Ok(Self::Public(given));
        }
        Mersenne::new(py, given.extract::<MersennePlaces>()?).map(|generator| Self::Fast(py, generator))
    }

    fn take(&self) -> PyResult<MersenneState> {
        match self {
            Self::Fast(py, generator) => generator.take(*py),
            Self::Public(given) => {
                let state: Bound<'_, PyBytes> = given.call_method0(intern!(given.py(), "take"))?.cast_into()?;
                MersenneState::from_bytes(state.as_bytes())
            }
        }
    }

    fn put(&self, state: &MersenneState) -> PyResult<()> {
        match self {
            Self::Fast(py, generator) => generator.put(*py, state),
            Self::Public(given) => {
                let state = PyBytes::new(given.py(), &state.to_bytes());
                given.call_method1(intern!(given.py(), "put"), (state,)).map(drop)
            }
        }
    }
}
