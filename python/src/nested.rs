//! Values of nested columns: their type, as passed through Python, and their Python objects.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use serde_json::{Value, json};
use sluicegate::internal::NestedBytes;
use sluicegate::{DType, NestedType, NestedValue};

use super::field_kind::text;

/// Returns the JSON text that represents `values`: the name of a data type, "text", or "bytes"; a list with one such
/// type; or a list of "dict" and (name, type) for each part.
pub(super) fn spec_of(values: &NestedType) -> String {
    fn spec(values: &NestedType) -> Value {
        match values {
            NestedType::Number(dtype) => dtype.name().into(),
            NestedType::Text => "text".into(),
            NestedType::Bytes => "bytes".into(),
            NestedType::List(item) => json!([spec(item)]),
            NestedType::Dict(parts) => {
                let parts = parts.iter().map(|(name, part)| json!([name, spec(part)]));
                Value::Array(std::iter::once("dict".into()).chain(parts).collect())
            }
        }
    }
    spec(values).to_string()
}

/// Parses the output of [`spec_of`].
pub(super) fn of_spec(spec: &str) -> Option<NestedType> {
    fn of(spec: &Value) -> Option<NestedType> {
        Some(match spec {
            Value::String(name) if name == "text" => NestedType::Text,
            Value::String(name) if name == "bytes" => NestedType::Bytes,
            Value::String(name) => NestedType::Number(name.parse().ok()?),
            Value::Array(parts) => match &parts[..] {
                [Value::String(name), parts @ ..] if name == "dict" => {
                    let part = |part: &Value| Some((part.get(0)?.as_str()?.to_owned(), of(part.get(1)?)?));
                    NestedType::Dict(parts.iter().map(part).collect::<Option<_>>()?)
                }
                [item] => NestedType::List(Box::new(of(item)?)),
                _ => return None,
            },
            _ => return None,
        })
    }
    of(&serde_json::from_str(spec).ok()?)
}

/// Makes the objects of one type; the keys of its dictionaries are made only once.
pub(super) enum Maker<'py> {
    Number(DType),
    Text,
    Bytes,
    List(Box<Maker<'py>>),
    Dict(Vec<(Bound<'py, PyString>, Maker<'py>)>),
}

/// Objects, or a message if the bytes are invalid.
type Made<T> = PyResult<Result<T, String>>;

/// Unwraps what was made, or returns the reason for its failure.
macro_rules! made {
    ($made:expr) => {
        match $made? {
            Ok(made) => made,
            Err(reason) => return Ok(Err(reason)),
        }
    };
}

impl<'py> Maker<'py> {
    /// Returns a maker of objects of type `values`.
    pub(super) fn new(py: Python<'py>, values: &NestedType) -> Self {
        match values {
            NestedType::Number(dtype) => Self::Number(*dtype),
            NestedType::Text => Self::Text,
            NestedType::Bytes => Self::Bytes,
            NestedType::List(item) => Self::List(Box::new(Self::new(py, item))),
            NestedType::Dict(parts) => {
                let part = |(name, part): &(String, NestedType)| (PyString::intern(py, name), Self::new(py, part));
                Self::Dict(parts.iter().map(part).collect())
            }
        }
    }

    /// Returns the object that `bytes` encode.
    pub(super) fn object(&self, py: Python<'py>, bytes: &[u8]) -> Made<Bound<'py, PyAny>> {
        let mut bytes = NestedBytes::new(bytes);
        let object = made!(self.one(py, &mut bytes));
        Ok(if bytes.is_empty() { Ok(object) } else { Err(damaged()) })
    }

    /// Reads a sequence of one object.
    fn one(&self, py: Python<'py>, bytes: &mut NestedBytes<'_>) -> Made<Bound<'py, PyAny>> {
        match bytes.presence(1) {
            Some(presence) if presence.is_present(0) => self.present_value(py, bytes),
            Some(_) => Ok(Ok(py.None().into_bound(py))),
            None => Ok(Err(damaged())),
        }
    }

    /// Reads a sequence of `len` objects.
    fn sequence(&self, py: Python<'py>, bytes: &mut NestedBytes<'_>, len: usize) -> Made<Bound<'py, PyList>> {
        let Some(presence) = bytes.presence(len) else { return Ok(Err(damaged())) };
        // A value has at least one byte, except dictionaries without parts, which do not occur.
        let mut objects = Vec::new();
        for row in 0..len {
            objects.push(match presence.is_present(row) {
                true => made!(self.present_value(py, bytes)),
                false => py.None().into_bound(py),
            });
        }
        PyList::new(py, objects).map(Ok)
    }

    fn present_value(&self, py: Python<'py>, bytes: &mut NestedBytes<'_>) -> Made<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Number(dtype) => match bytes.number(*dtype) {
                Some(NestedValue::Bool(value)) => Ok(PyBool::new(py, value).to_owned().into_any()),
                Some(NestedValue::Int(number)) => Ok(integer(py, number)),
                Some(NestedValue::Float(number)) => Ok(PyFloat::new(py, number).into_any()),
                _ => Err(damaged()),
            },
            Self::Text => match bytes.string() {
                Some(bytes) => text(py, bytes).map(Bound::into_any),
                None => Err(damaged()),
            },
            Self::Bytes => bytes.string().map(|bytes| PyBytes::new(py, bytes).into_any()).ok_or_else(damaged),
            Self::List(item) => match bytes.len() {
                Some(len) => Ok(made!(item.sequence(py, bytes, len)).into_any()),
                None => Err(damaged()),
            },
            Self::Dict(parts) => {
                let dict = PyDict::new(py);
                for (name, part) in parts {
                    dict.set_item(name, made!(part.one(py, bytes)))?;
                }
                Ok(dict.into_any())
            }
        })
    }
}

fn integer(py: Python<'_>, number: i128) -> Bound<'_, PyAny> {
    match i64::try_from(number) {
        Ok(number) => PyInt::new(py, number).into_any(),
        // No data type has larger numbers.
        Err(_) => PyInt::new(py, number as u64).into_any(),
    }
}

fn damaged() -> String {
    "its bytes are not a value of its type".into()
}
