//! [`JsonColumn`]: the values of one key in a batch of JSON objects.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString};

/// The values of one key. Numbers become Python objects only if values of another type occur: making objects, and a
/// tensor from a list of them, took most of the time of a batch.
pub(super) enum JsonColumn<'py> {
    /// 64-bit integers, in native byte order.
    Integers(Vec<[u8; 8]>),
    /// 64-bit floats, in native byte order.
    Floats(Vec<[u8; 8]>),
    Objects(Bound<'py, PyList>),
}

impl<'py> JsonColumn<'py> {
    /// Returns an empty column.
    pub(super) fn new() -> Self {
        Self::Integers(Vec::new())
    }

    pub(super) fn push_integer(&mut self, py: Python<'py>, value: i64) -> PyResult<()> {
        match self {
            Self::Integers(values) => values.push(value.to_ne_bytes()),
            _ => self.objects(py)?.append(value)?,
        }
        Ok(())
    }

    pub(super) fn push_float(&mut self, py: Python<'py>, value: f64) -> PyResult<()> {
        match self {
            Self::Floats(values) => values.push(value.to_ne_bytes()),
            Self::Integers(values) if values.is_empty() => *self = Self::Floats(vec![value.to_ne_bytes()]),
            _ => self.objects(py)?.append(value)?,
        }
        Ok(())
    }

    pub(super) fn push(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        self.objects(value.py())?.append(value)
    }

    /// True if the first value is a string.
    pub(super) fn is_of_texts(&self) -> PyResult<bool> {
        match self {
            Self::Objects(values) => Ok(values.get_item(0)?.is_instance_of::<PyString>()),
            _ => Ok(false),
        }
    }

    /// Returns the values as a list or, for numbers of one type, as a `memoryview`.
    pub(super) fn into_sequence(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (numbers, format) = match &self {
            Self::Integers(values) => (values, "q"),
            Self::Floats(values) => (values, "d"),
            Self::Objects(values) => return Ok(values.clone().into_any()),
        };
        let bytes = PyMemoryView::from(PyBytes::new(py, numbers.as_flattened()).as_any())?;
        bytes.call_method1(intern!(py, "cast"), (format,))
    }

    /// Converts the values to objects, for good, and returns them.
    fn objects(&mut self, py: Python<'py>) -> PyResult<&Bound<'py, PyList>> {
        let objects = match self {
            Self::Integers(values) => PyList::new(py, values.iter().map(|bytes| i64::from_ne_bytes(*bytes)))?,
            Self::Floats(values) => PyList::new(py, values.iter().map(|bytes| f64::from_ne_bytes(*bytes)))?,
            Self::Objects(values) => return Ok(values),
        };
        *self = Self::Objects(objects);
        self.objects(py)
    }
}
