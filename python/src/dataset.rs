//! `Dataset`: data that can be read without Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use sluicegate::internal::Ragged;
use sluicegate::{Concat, Field, Stack, Subset, WholeSamples};

use super::block_cache::BlockCache;
use super::convert::{all_places, plain_places};
use super::error::to_python;
use super::in_memory::in_memory;
use super::memory::{ForeignArray, Indices};
use super::positions::Positions;

/// A dataset of the core. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct Dataset(pub(crate) Arc<dyn sluicegate::Dataset>);

impl Dataset {
    pub(crate) fn wrap(
        py: Python<'_>,
        dataset: sluicegate::Result<impl sluicegate::Dataset + 'static>,
    ) -> PyResult<Self> {
        dataset.map(|dataset| Self(Arc::new(dataset))).map_err(|error| to_python(py, error))
    }

    /// Returns the dataset without damaged samples, and a line about each of those.
    pub(crate) fn whole<D: sluicegate::Dataset + 'static>(samples: WholeSamples<D>) -> (Self, Vec<String>) {
        let damages = samples.damages().to_vec();
        (Self(Arc::new(samples)), damages)
    }
}

impl Dataset {
    /// Like [`whole`](Self::whole), for samples that are decoded in blocks.
    pub(crate) fn whole_blocks<D: sluicegate::Dataset + 'static>(
        samples: WholeSamples<D>,
        info: fn(&D) -> sluicegate::internal::CacheInfo,
    ) -> (Self, BlockCache, Vec<String>) {
        let (damages, samples) = (samples.damages().to_vec(), Arc::new(samples));
        let cache = BlockCache::of(&samples, move |samples| info(samples.dataset()));
        (Self(samples), cache, damages)
    }
}

/// Returns how many samples remain in blocks of these sizes after some were left out.
pub(crate) fn whole_sizes<D: sluicegate::Dataset>(
    rows: &WholeSamples<D>,
    all: impl IntoIterator<Item = usize>,
) -> Vec<usize> {
    let mut start = 0;
    let sizes = all.into_iter().map(|size| {
        start += size;
        rows.whole_in(start - size..start)
    });
    sizes.collect()
}

#[pymethods]
impl Dataset {
    /// Returns a dataset of arrays in memory, one field each: (name, dtype, address, shape, strides in bytes, owner).
    #[staticmethod]
    fn in_memory(py: Python<'_>, arrays: Vec<ForeignArray>) -> PyResult<Self> {
        Self::wrap(py, in_memory(arrays))
    }

    /// Returns a dataset of samples of any size in memory: all elements, and each sample's start and the last's end.
    #[staticmethod]
    fn ragged(py: Python<'_>, values: ForeignArray, offsets: Vec<usize>) -> PyResult<Self> {
        Self::wrap(
            py,
            values.into_field().and_then(|(field, values)| {
                let field = Field::variable(field.name(), field.dtype(), field.shape());
                Ragged::new(field, values, offsets)
            }),
        )
    }

    /// Returns the samples of `dataset` at `indices`; None if one of them is not a plain `int` in range.
    #[staticmethod]
    fn subset(py: Python<'_>, dataset: &Self, indices: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let positions = Positions::of(&*dataset.0);
        let indices = match indices.cast::<PyList>() {
            Ok(list) => plain_places(list, positions)?,
            Err(_) => all_places(py, indices.cast::<Indices>()?.get(), positions)?,
        };
        Ok(indices.map(|indices| Self(Arc::new(Subset::checked(Arc::clone(&dataset.0), indices)))))
    }

    /// Returns the concatenation of `parts`.
    #[staticmethod]
    fn concat(py: Python<'_>, parts: Vec<PyRef<'_, Self>>) -> PyResult<Self> {
        Self::wrap(py, Concat::new(parts.iter().map(|part| Arc::clone(&part.0)).collect()))
    }

    /// Returns datasets side by side.
    #[staticmethod]
    fn stack(py: Python<'_>, parts: Vec<(String, PyRef<'_, Self>)>) -> PyResult<Self> {
        Self::wrap(py, Stack::new(parts.into_iter().map(|(name, part)| (name, Arc::clone(&part.0))).collect()))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Returns the fields of a sample: (name, dtype, shape).
    #[getter]
    fn fields(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        let fields = self.0.schema().fields().iter();
        fields.map(|field| (field.name().to_owned(), field.dtype().name(), field.shape().to_vec())).collect()
    }

    /// True if a sample depends on its key.
    #[getter]
    fn is_random(&self) -> bool {
        self.0.is_random()
    }

    /// True if batches of both can be concatenated: equal data types and shapes, field by field.
    fn stacks_with(&self, other: &Self) -> bool {
        self.0.schema().stacks_with(other.0.schema())
    }
}
