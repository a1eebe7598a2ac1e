//! `HandOver`: converts batches and samples of a dataset to Python objects.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use sluicegate::{Batch, Collate, Field, PadSamples, Schema, StackSamples};

use super::convert::{Containers, Structure};
use super::field_kind::{FieldKind, Materials, Samples};

/// How the fields of a dataset are nested, and the kind of each.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct HandOver {
    structure: Structure,
    /// For each field: its kind, and the torch data type to view it as, if DLPack has none for it.
    fields: Vec<(FieldKind, Option<Py<PyAny>>)>,
    from_dlpack: Py<PyAny>,
    collate: Py<PyAny>,
    /// Makes the batch that Python receives from the one in `structure`.
    finish: Option<Py<PyAny>>,
}

#[pymethods]
impl HandOver {
    /// `structure` nests the fields, `kinds` and `views` are by field, `from_dlpack` makes a tensor from a capsule, and
    /// `collate` makes a batch from a list of parsed JSON values, with their key as a second argument. `finish`
    /// receives each batch, and returns what is handed over in its place.
    #[new]
    #[pyo3(signature = (structure, kinds, views, from_dlpack, collate, finish=None))]
    fn new(
        structure: Structure,
        kinds: Vec<FieldKind>,
        views: Vec<Option<Py<PyAny>>>,
        from_dlpack: Py<PyAny>,
        collate: Py<PyAny>,
        finish: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        if kinds.len() != views.len() || structure.last_field().is_some_and(|last| last >= kinds.len()) {
            return Err(PyValueError::new_err("structure, kinds, and views must have the same fields"));
        }
        Ok(Self { structure, fields: kinds.into_iter().zip(views).collect(), from_dlpack, collate, finish })
    }
}

impl HandOver {
    /// Returns the collate that lays out the batches to hand over.
    pub(super) fn collate(&self) -> Arc<dyn Collate> {
        let padded = self.fields.iter().enumerate().fold(PadSamples::new(), |padded, (field, (kind, _))| match kind {
            FieldKind::Padded(fill) => padded.field(field, fill.clone()),
            FieldKind::Filled(padding) => padded.with(field, padding.clone()),
            _ => padded,
        });
        if padded.is_empty() { Arc::new(StackSamples) } else { Arc::new(padded) }
    }

    /// Fails if the samples of `schema` can't be handed over in this way.
    pub(super) fn check(&self, schema: &Schema) -> PyResult<()> {
        let fields = schema.fields();
        let fits = |(field, (kind, _)): (&Field, &(FieldKind, _))| kind.accepts(field);
        if fields.len() == self.fields.len() && fields.iter().zip(&self.fields).all(fits) {
            return Ok(());
        }
        let kinds: Vec<_> = self.fields.iter().map(|(kind, _)| kind).collect();
        Err(PyValueError::new_err(format!("{schema} is not of the kinds {kinds:?}")))
    }

    /// Returns the batch of the samples `of`; all its tensors share one lease.
    pub(super) fn batch<'py>(&self, py: Python<'py>, of: Samples<'_>, batch: Batch) -> PyResult<Bound<'py, PyAny>> {
        let batch = self.with(py, of, batch, |materials| {
            let fields = self.fields.iter().enumerate();
            let fields = fields.map(|(field, (kind, view))| materials.batch(kind, field, view.as_ref()));
            self.structure.fill(py, &fields.collect::<PyResult<Vec<_>>>()?, Containers::OfBatch)
        })?;
        match &self.finish {
            Some(finish) => finish.bind(py).call1((batch,)),
            None => Ok(batch),
        }
    }

    /// Returns the samples `of`; all their tensors share one lease.
    pub(super) fn samples<'py>(&self, py: Python<'py>, of: Samples<'_>, batch: Batch) -> PyResult<Bound<'py, PyList>> {
        self.with(py, of, batch, |materials| {
            let samples = (0..of.indices.len()).map(|row| {
                let fields = self.fields.iter().enumerate();
                let fields = fields.map(|(field, (kind, view))| materials.sample(kind, (field, row), view.as_ref()));
                self.structure.fill(py, &fields.collect::<PyResult<Vec<_>>>()?, Containers::OfSample)
            });
            PyList::new(py, samples.collect::<PyResult<Vec<_>>>()?)
        })
    }

    fn with<'py, T>(
        &self,
        py: Python<'py>,
        of: Samples<'_>,
        batch: Batch,
        make: impl FnOnce(&Materials<'_, 'py>) -> PyResult<T>,
    ) -> PyResult<T> {
        let (layout, lease) = batch.into_parts();
        let (from_dlpack, collate) = (self.from_dlpack.bind(py), self.collate.bind(py));
        make(&Materials { py, from_dlpack, collate, layout: &layout, lease: &Arc::new(lease), of })
    }
}
