//! [`FieldKind`]: how Python represents a field, in a sample and in a batch.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use sluicegate::internal::Lease;
use sluicegate::{BatchLayout, Column, DType, Error, Field, NestedType, Padding};

use super::detach::detach;
use super::error::to_python;
use super::json;
use super::nested;
use super::pinned_block::leased_tensor;

/// How Python represents a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FieldKind {
    /// A tensor, in samples and in batches.
    Tensor,
    /// A number in samples; a tensor in batches, as torch's default collate makes it.
    Number,
    /// A tensor of any length in samples; `{"values", "offsets"}` in batches.
    Ragged,
    /// A tensor of any length in samples; `{"values", "lengths"}` in batches, padded with the value of these bytes.
    Padded(Vec<u8>),
    /// Like `Padded`, but a tensor in batches.
    Filled(Padding),
    /// `bytes` in samples; a list of them in batches.
    Bytes,
    /// `str` in samples; a list of them in batches.
    Str,
    /// `bytes` or `str` in samples; a tuple of them in batches, as torch's default collate makes from list elements.
    Tuple(Box<FieldKind>),
    /// Like `Str`, decoded as `os.fsdecode` does: file names need not be UTF-8.
    Path,
    /// The object that a JSON text represents; `collate` makes the batches.
    Json,
    /// Nested lists and dicts of this type: an object in samples, a list of them in batches.
    Nested(NestedType),
    /// `None` for a missing element; in batches a list in which elements may be `None`. Bytes, strings, JSON, and
    /// tensors of any length are stored with one more element at the start, so that missing and empty differ.
    Optional(Box<FieldKind>),
}

impl<'py> FromPyObject<'_, 'py> for FieldKind {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok((name, fill)) = object.extract::<(String, Vec<u8>)>()
            && name == "padded"
        {
            return Ok(Self::Padded(fill));
        }
        if let Ok((name, fill, is_left, multiple, length)) =
            object.extract::<(String, Vec<u8>, bool, usize, Option<usize>)>()
            && name == "filled"
        {
            let padding = Padding::new(fill).to_multiple_of(multiple);
            let padding = if is_left { padding.on_left() } else { padding };
            return Ok(Self::Filled(match length {
                Some(length) => padding.to_length(length),
                None => padding,
            }));
        }
        if let Ok((name, kind)) = object.extract::<(String, Bound<'py, PyAny>)>()
            && name == "optional"
        {
            return Ok(Self::Optional(Box::new(kind.extract()?)));
        }
        if let Ok((name, spec)) = object.extract::<(String, String)>()
            && name == "nested"
        {
            let values = nested::of_spec(&spec);
            let values = values.ok_or_else(|| PyValueError::new_err(format!("unknown type of nested values `{spec}`")));
            return values.map(Self::Nested);
        }
        match object.extract::<&str>()? {
            // In samples these are an array or its scalar; in batches a tensor.
            "tensor" | "array" | "scalar" => Ok(Self::Tensor),
            "number" => Ok(Self::Number),
            "ragged" => Ok(Self::Ragged),
            "bytes" => Ok(Self::Bytes),
            "str" => Ok(Self::Str),
            "path" => Ok(Self::Path),
            "json" => Ok(Self::Json),
            "str tuple" => Ok(Self::Tuple(Box::new(Self::Str))),
            "bytes tuple" => Ok(Self::Tuple(Box::new(Self::Bytes))),
            other => Err(PyValueError::new_err(format!("unknown field kind `{other}`"))),
        }
    }
}

impl FieldKind {
    /// True if samples of `field` can be of this kind.
    pub(super) fn accepts(&self, field: &Field) -> bool {
        match self {
            Self::Tensor => !field.is_variable(),
            Self::Number => {
                let is_number = matches!(field.dtype(), DType::Bool | DType::Int64 | DType::Float64);
                !field.is_variable() && is_number && field.shape().is_empty()
            }
            Self::Ragged => field.is_variable(),
            Self::Padded(fill) => field.is_variable() && fill.len() == field.dtype().bytes(),
            Self::Filled(padding) => field.is_variable() && padding.fill().len() == field.dtype().bytes(),
            Self::Bytes | Self::Str | Self::Path | Self::Json => field.dtype() == DType::UInt8,
            Self::Tuple(kind) => kind.accepts(field),
            Self::Nested(_) => field.is_variable() && field.dtype() == DType::UInt8,
            Self::Optional(kind) if **kind == Self::Ragged => field.is_variable(),
            Self::Optional(kind) => {
                let element = Field::new(field.name(), field.dtype(), field.shape());
                field.is_variable() && kind.accepts(&element)
            }
        }
    }
}

/// The samples to hand over.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    pub(super) indices: &'a [usize],
    /// Reports where samples come from, for errors; None if there is no access by index.
    pub(super) dataset: Option<&'a dyn sluicegate::Dataset>,
}

/// What fields are made from: torch's functions, and the batch that contains the fields.
pub(super) struct Materials<'a, 'py> {
    pub(super) py: Python<'py>,
    /// Makes a tensor from a capsule.
    pub(super) from_dlpack: &'a Bound<'py, PyAny>,
    /// Makes a batch from a list of objects.
    pub(super) collate: &'a Bound<'py, PyAny>,
    pub(super) layout: &'a BatchLayout,
    pub(super) lease: &'a Arc<Lease>,
    pub(super) of: Samples<'a>,
}

impl<'py> Materials<'_, 'py> {
    /// Returns field `field` of the batch.
    pub(super) fn batch(
        &self,
        kind: &FieldKind,
        field: usize,
        view: Option<&Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match kind {
            FieldKind::Tensor | FieldKind::Number | FieldKind::Ragged | FieldKind::Padded(_) => {
                let column = &self.layout.columns[field];
                let shape = &self.layout.fields[field].shape;
                let values = self.tensor(column.offset(), (self.layout.fields[field].dtype, shape), view)?;
                let samples = self.layout.samples;
                let (name, at, len) = match *column {
                    Column::Fixed { .. } => return Ok(values),
                    Column::Variable { offsets, .. } => (intern!(self.py, "offsets"), offsets, samples + 1),
                    Column::Padded { lengths, .. } => (intern!(self.py, "lengths"), lengths, samples),
                };
                let dict = PyDict::new(self.py);
                dict.set_item(intern!(self.py, "values"), values)?;
                dict.set_item(name, self.tensor(at, (DType::Int64, &[len]), None)?)?;
                Ok(dict.into_any())
            }
            FieldKind::Filled(_) => {
                let of = &self.layout.fields[field];
                self.tensor(self.layout.columns[field].offset(), (of.dtype, &of.shape), view)
            }
            FieldKind::Json => self.collated_json(field),
            FieldKind::Bytes | FieldKind::Str | FieldKind::Path => {
                let objects = (0..self.layout.samples).map(|row| self.sample(kind, (field, row), view));
                Ok(PyList::new(self.py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            FieldKind::Tuple(kind) => {
                let objects = (0..self.layout.samples).map(|row| self.sample(kind, (field, row), view));
                Ok(PyTuple::new(self.py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            FieldKind::Nested(values) => {
                let values = nested::Maker::new(self.py, values);
                let objects = (0..self.layout.samples).map(|row| self.nested(&values, (field, row)));
                Ok(PyList::new(self.py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            FieldKind::Optional(_) => {
                let objects = (0..self.layout.samples).map(|row| self.sample(kind, (field, row), view));
                Ok(PyList::new(self.py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
        }
    }

    /// Calls `collate` on the objects that the texts of field `field` represent.
    ///
    /// The batch of objects is a dictionary of the batches of their values. So objects with equal keys are split by key
    /// as they are parsed, and `collate` is called with the values of each key and its name.
    fn collated_json(&self, field: usize) -> PyResult<Bound<'py, PyAny>> {
        let rows = 0..self.layout.samples;
        let text = |row| &self.lease.bytes()[self.layout.columns[field].sample(self.lease.bytes(), row)];
        let Some(columns) = json::by_key(self.py, rows.clone().map(text)).filter(|_| !rows.is_empty()) else {
            let objects = rows.map(|row| self.sample(&FieldKind::Json, (field, row), None));
            let objects = PyList::new(self.py, objects.collect::<PyResult<Vec<_>>>()?)?;
            return self.collate.call1((objects,));
        };
        let batch = PyDict::new(self.py);
        for (name, values) in columns {
            // For strings, recognized by the first value, the default collate returns the list.
            let are_texts = values.is_of_texts()?;
            let values = values.into_sequence(self.py)?;
            match are_texts {
                true => batch.set_item(&name, values)?,
                false => batch.set_item(&name, self.collate.call1((values, &name))?)?,
            }
        }
        Ok(batch.into_any())
    }

    /// Returns field `field` of the sample in row `row`.
    pub(super) fn sample(
        &self,
        kind: &FieldKind,
        (field, row): (usize, usize),
        view: Option<&Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match kind {
            FieldKind::Tensor | FieldKind::Number | FieldKind::Ragged | FieldKind::Padded(_) | FieldKind::Filled(_) => {
                let column = self.layout.columns[field];
                let place = column.sample(self.lease.bytes(), row);
                let batch = &self.layout.fields[field];
                let (bytes_per_element, axes) = match column {
                    Column::Fixed { .. } => (None, 1),
                    Column::Variable { bytes_per_element, .. } => (Some(bytes_per_element), 1),
                    Column::Padded { bytes_per_element, .. } => (Some(bytes_per_element), 2),
                };
                let mut shape: Vec<usize> = Vec::with_capacity(batch.shape.len());
                shape.extend(bytes_per_element.map(|bytes| place.len().checked_div(bytes).unwrap_or(0)));
                shape.extend(&batch.shape[axes..]);
                let tensor = self.tensor(place.start, (batch.dtype, &shape), view)?;
                match kind {
                    FieldKind::Number => tensor.call_method0(intern!(self.py, "item")),
                    _ => Ok(tensor),
                }
            }
            FieldKind::Bytes | FieldKind::Str | FieldKind::Path | FieldKind::Json => {
                let place = self.layout.columns[field].sample(self.lease.bytes(), row);
                self.object(kind, (field, row), place)
            }
            FieldKind::Tuple(kind) => self.sample(kind, (field, row), view),
            FieldKind::Nested(values) => self.nested(&nested::Maker::new(self.py, values), (field, row)),
            FieldKind::Optional(kind) => {
                let mut place = self.layout.columns[field].sample(self.lease.bytes(), row);
                if place.is_empty() {
                    return Ok(self.py.None().into_bound(self.py));
                }
                let batch = &self.layout.fields[field];
                match **kind {
                    FieldKind::Tensor => self.tensor(place.start, (batch.dtype, &batch.shape[1..]), view),
                    FieldKind::Ragged => {
                        let Column::Variable { bytes_per_element, .. } = self.layout.columns[field] else {
                            return Err(self.refuse((field, row), "the field is not ragged".into()));
                        };
                        let elements = place.len().checked_div(bytes_per_element).unwrap_or(0);
                        let mut shape = batch.shape.clone();
                        shape[0] = elements.saturating_sub(1);
                        self.tensor(place.start + bytes_per_element, (batch.dtype, &shape), view)
                    }
                    FieldKind::Number => {
                        let number = self.tensor(place.start, (batch.dtype, &[]), view)?;
                        number.call_method0(intern!(self.py, "item"))
                    }
                    ref kind => {
                        place.start += 1;
                        self.object(kind, (field, row), place)
                    }
                }
            }
        }
    }

    fn nested(&self, values: &nested::Maker<'py>, (field, row): (usize, usize)) -> PyResult<Bound<'py, PyAny>> {
        let place = self.layout.columns[field].sample(self.lease.bytes(), row);
        values.object(self.py, &self.lease.bytes()[place])?.map_err(|reason| self.refuse((field, row), reason))
    }

    fn refuse(&self, (field, row): (usize, usize), reason: String) -> PyErr {
        let index = self.of.indices[row];
        let dataset = self.of.dataset;
        // This may read a footer again.
        let origin = detach(self.py, || Ok(dataset.and_then(|dataset| dataset.origin(index, field))));
        let reason = match origin {
            Ok(Some(origin)) => format!("{origin}: {reason}"),
            _ => reason,
        };
        let field = self.layout.fields[field].name.clone();
        to_python(self.py, Error::Sample { index, field, reason })
    }

    fn object(
        &self,
        kind: &FieldKind,
        (field, row): (usize, usize),
        place: Range<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = &self.lease.bytes()[place];
        let refuse = |reason| self.refuse((field, row), reason);
        match kind {
            FieldKind::Str => Ok(text(self.py, bytes).map_err(refuse)?.into_any()),
            FieldKind::Path => OsStr::from_bytes(bytes).into_bound_py_any(self.py),
            FieldKind::Json => json::parse(self.py, bytes).map_err(refuse),
            _ => Ok(PyBytes::new(self.py, bytes).into_any()),
        }
    }

    fn tensor(&self, offset: usize, form: (DType, &[usize]), view: Option<&Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = leased_tensor(self.from_dlpack, self.lease, offset, form)?;
        view.map_or(Ok(tensor.clone()), |dtype| tensor.call_method1(intern!(self.py, "view"), (dtype,)))
    }
}

/// Returns the string that `bytes` encode, or a message that says why they encode none.
pub(super) fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Result<Bound<'py, PyString>, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(error) => Err(format!("it is not UTF-8 text from byte {} on; read it as bytes", error.valid_up_to())),
    }
}
