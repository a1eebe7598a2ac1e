//! [`SampleDraws`]: the generators that random samples draw from, one after another.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sluicegate::internal::{Drawing, GeneratorPlace, GeneratorStream};

use super::global_generators::GeneratorAccess;
use super::mersenne::MersenneState;
use super::torch_generator::draw_from;
use crate::error::to_python;

/// Access to torch's generator (see [`draw_from`]), and to Python's (see [`GeneratorAccess`]).
pub(crate) struct SampleDraws {
    torch: Py<PyAny>,
    python: Option<Py<PyAny>>,
}

impl SampleDraws {
    pub(crate) fn new(torch: Py<PyAny>, python: Option<Py<PyAny>>) -> Self {
        Self { torch, python }
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { torch: self.torch.clone_ref(py), python: self.python.as_ref().map(|each| each.clone_ref(py)) }
    }

    /// Follows the draws of the samples at `indices` in sequence, and moves the generators past them.
    ///
    /// # Errors
    /// If the data that the draws depend on could not be read; nothing was drawn.
    pub(crate) fn follow(
        &self,
        py: Python<'_>,
        drawing: &dyn Drawing,
        indices: &[usize],
    ) -> PyResult<Arc<[GeneratorPlace]>> {
        draw_from(self.torch.bind(py), |generator| {
            let pythons = self.python.as_ref().filter(|_| drawing.draws_from_python());
            let access =
                |given: &Py<PyAny>| GeneratorAccess::new(Some(given.bind(py).clone()), GeneratorStream::GlobalPython);
            let pythons = pythons.map(access).transpose()?;
            let before = match &pythons {
                Some(access) => Some(MersenneState::from_bytes(access.take(py)?.as_bytes())?),
                None => None,
            };
            if let Some(before) = &before {
                *generator = generator.clone().with_python(before.generator());
            }
            let mut places: Vec<GeneratorPlace> = Vec::with_capacity(indices.len());
            for &index in indices {
                places.push(generator.place(places.last()));
                drawing.advance(index, generator).map_err(|error| to_python(py, error))?;
            }
            if let (Some(access), Some(before), Some(python)) = (pythons, before, generator.python()) {
                access.put(&PyBytes::new(py, &before.moved_to(python).to_bytes()))?;
            }
            Ok(places.into())
        })
    }
}
