//! Converts Python values to the core's and back.

use std::ffi::CStr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};
use sluicegate::DType;
use sluicegate::internal::{TaskKind, watch};

use super::detach::detach_long;
use super::memory::Indices;
use super::positions::Positions;

/// How the fields of a batch are nested in the result, as torch's default collate would nest them.
pub(super) enum Structure {
    /// A field, by number.
    Field(usize),
    /// A list; tuples are represented by lists, too.
    List(Vec<Structure>),
    /// A dictionary with these keys, in order.
    Dict(Vec<(Py<PyAny>, Structure)>),
}

impl<'py> FromPyObject<'_, 'py> for Structure {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(field) = object.extract::<usize>() {
            return Ok(Self::Field(field));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return list.iter().map(|part| part.extract()).collect::<PyResult<_>>().map(Self::List);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            let parts = dict.iter().map(|(key, part)| Ok((key.unbind(), part.extract()?)));
            return parts.collect::<PyResult<_>>().map(Self::Dict);
        }
        Err(PyTypeError::new_err("a structure is a field's number, a list or a dict of structures"))
    }
}

impl Structure {
    /// Returns the largest field number that occurs.
    pub(super) fn last_field(&self) -> Option<usize> {
        match self {
            Self::Field(field) => Some(*field),
            Self::List(parts) => parts.iter().filter_map(Self::last_field).max(),
            Self::Dict(parts) => parts.iter().filter_map(|(_, part)| part.last_field()).max(),
        }
    }

    /// Returns the structure filled with `fields`.
    pub(super) fn fill<'py>(
        &self,
        py: Python<'py>,
        fields: &[Bound<'py, PyAny>],
        containers: Containers,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Field(field) => Ok(fields[*field].clone()),
            Self::List(parts) => {
                let parts = parts.iter().map(|part| part.fill(py, fields, containers)).collect::<PyResult<Vec<_>>>()?;
                match containers {
                    Containers::OfBatch => Ok(PyList::new(py, parts)?.into_any()),
                    Containers::OfSample => Ok(PyTuple::new(py, parts)?.into_any()),
                }
            }
            Self::Dict(parts) => {
                let dict = PyDict::new(py);
                for (key, part) in parts {
                    dict.set_item(key, part.fill(py, fields, containers)?)?;
                }
                Ok(dict.into_any())
            }
        }
    }
}

/// The Python type that represents lists of a structure.
#[derive(Debug, Clone, Copy)]
pub(super) enum Containers {
    /// Tuples, as datasets return them.
    OfSample,
    /// Lists, which torch's default collate makes from tuples.
    OfBatch,
}

/// Returns the positions that the indices in `list` stand for.
///
/// Returns None if one of them is not a plain `int` (torch gives `True`, a slice, or an array its own meaning), or is
/// out of range: then the dataset itself must be asked.
pub(super) fn plain_indices(list: &Bound<'_, PyList>, positions: Positions) -> Option<Vec<usize>> {
    list.iter()
        .map(|index| {
            if !index.is_exact_instance_of::<PyInt>() {
                return None;
            }
            positions.find(index.extract::<i64>().ok()?)
        })
        .collect()
}

/// Number of indices to convert between two checks for signals.
const LOOKED_AT_AT_ONCE: usize = 1 << 16;

/// Like [`plain_indices`], for a list as long as a dataset: handles signals meanwhile.
pub(super) fn plain_places(list: &Bound<'_, PyList>, positions: Positions) -> PyResult<Option<Vec<usize>>> {
    let mut places = Vec::with_capacity(list.len());
    for index in list.iter() {
        if places.len().is_multiple_of(LOOKED_AT_AT_ONCE) {
            list.py().check_signals()?;
        }
        let place = index.is_exact_instance_of::<PyInt>().then(|| index.extract::<i64>().ok()).flatten();
        let Some(place) = place.and_then(|index| positions.find(index)) else { return Ok(None) };
        places.push(place);
    }
    Ok(Some(places))
}

/// Returns the positions that `indices` stand for; None if one is out of range. Handles signals.
pub(super) fn all_places(py: Python<'_>, indices: &Indices, positions: Positions) -> PyResult<Option<Vec<usize>>> {
    let count = indices.__len__();
    detach_long(py, "preparing an order", || {
        watch::expect(count);
        let mut places = Vec::with_capacity(count);
        for start in (0..count).step_by(LOOKED_AT_AT_ONCE) {
            let Some(block) = indices.places(start, start + LOOKED_AT_AT_ONCE, positions) else { return Ok(None) };
            watch::advance(block.len())?;
            places.extend(block);
        }
        Ok(Some(places))
    })
}

/// Returns the kind of task with this name.
pub(super) fn task_kind(name: &Bound<'_, PyAny>) -> PyResult<TaskKind> {
    match name.extract::<&str>()? {
        "fetch" => Ok(TaskKind::Fetch),
        "resume" => Ok(TaskKind::Resume),
        "stop" => Ok(TaskKind::Stop),
        other => Err(PyValueError::new_err(format!("kind: no task is called `{other}`"))),
    }
}

/// Returns the data type of a buffer's elements; None if torch makes no tensors from them, or they are not native.
pub(super) fn buffer_type(format: &CStr, item_bytes: isize) -> Option<DType> {
    match (format.to_bytes(), item_bytes) {
        (b"?", 1) => Some(DType::Bool),
        (b"b", 1) => Some(DType::Int8),
        (b"B", 1) => Some(DType::UInt8),
        (b"h", 2) => Some(DType::Int16),
        (b"H", 2) => Some(DType::UInt16),
        (b"i", 4) => Some(DType::Int32),
        (b"I", 4) => Some(DType::UInt32),
        (b"l" | b"q", 8) => Some(DType::Int64),
        // Not `Q`: torch rejects NumPy's `ulonglong`.
        (b"L", 8) => Some(DType::UInt64),
        (b"e", 2) => Some(DType::Float16),
        (b"f", 4) => Some(DType::Float32),
        (b"d", 8) => Some(DType::Float64),
        (b"Zf", 8) => Some(DType::Complex64),
        (b"Zd", 16) => Some(DType::Complex128),
        _ => None,
    }
}
