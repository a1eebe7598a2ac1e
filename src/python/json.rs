//! JSON to Python's objects, without a detour through another tree of values.

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde_json::Deserializer;
use serde_json::de::SliceRead;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

/// The object that `text` stands for: dictionaries, lists, texts, numbers, booleans and None, as `json.loads` makes them;
/// but that integers of more than 64 bits and `-0` become floats, and numbers that no float can hold, `NaN` and `Infinity`, which are no JSON, are refused.
///
/// Brackets may be nested 127 deep.
///
/// # Errors
/// What is wrong with the text, with line and column.
pub(super) fn parse<'py>(py: Python<'py>, text: &[u8]) -> Result<Bound<'py, PyAny>, String> {
    let mut deserializer = Deserializer::new(SliceRead::new(text));
    let value = Value(py).deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| format!("this is no JSON: {error}"))
}

#[derive(Clone, Copy)]
struct Value<'py>(Python<'py>);

impl<'de, 'py> DeserializeSeed<'de> for Value<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for Value<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(self.0.None().into_bound(self.0))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(PyBool::new(self.0, value).to_owned().into_any())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(PyInt::new(self.0, value).into_any())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(PyInt::new(self.0, value).into_any())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(PyFloat::new(self.0, value).into_any())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(PyString::new(self.0, value).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let list = PyList::empty(self.0);
        while let Some(element) = elements.next_element_seed(self)? {
            list.append(element).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.0);
        // Of a key that comes twice the last value counts, at the place of the first, as in `json.loads`.
        while let Some(key) = entries.next_key_seed(self)? {
            dict.set_item(key, entries.next_value_seed(self)?).map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}
