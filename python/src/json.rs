//! JSON to Python's objects, without a detour through another tree of values.

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use super::json_column::JsonColumn;

use serde_json::Deserializer;
use serde_json::de::SliceRead;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

/// The object that `text` stands for: dictionaries, lists, texts, numbers, booleans and None, as `json.loads` makes them;
/// except that integers of more than 64 bits and `-0` become floats, and numbers that no float can hold, `NaN` and
/// `Infinity`, which are not JSON, are refused.
///
/// Brackets may be nested 127 deep.
///
/// # Errors
/// What is wrong with the text, with line and column.
pub(super) fn parse<'py>(py: Python<'py>, text: &[u8]) -> Result<Bound<'py, PyAny>, String> {
    let mut deserializer = Deserializer::new(SliceRead::new(text));
    let value = Value(py).deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| format!("invalid JSON: {error}"))
}

/// The values of all `texts` by key, in the order of the first one's keys, when each is an object of these keys in this
/// order: what a batch is made of without a dictionary for each sample. None where they are anything else, or no JSON.
pub(super) fn by_key<'a, 'py>(
    py: Python<'py>,
    texts: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<(String, JsonColumn<'py>)>> {
    let mut columns = Columns { py, names: Vec::new(), values: Vec::new(), rows: 0 };
    for text in texts {
        let mut deserializer = Deserializer::new(SliceRead::new(text));
        (&mut columns).deserialize(&mut deserializer).and_then(|()| deserializer.end()).ok()?;
        columns.rows += 1;
    }
    Some(columns.names.into_iter().zip(columns.values).collect())
}

/// What was read of objects of the same keys.
struct Columns<'py> {
    py: Python<'py>,
    names: Vec<String>,
    values: Vec<JsonColumn<'py>>,
    rows: usize,
}

impl<'de> DeserializeSeed<'de> for &mut Columns<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Columns<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of the same keys as the first one")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let other = || A::Error::custom("other keys than the first one's");
        if self.rows == 0 {
            while let Some(name) = entries.next_key::<String>()? {
                // Of a key that comes twice the last value counts: that is for a dictionary to say.
                if self.names.contains(&name) {
                    return Err(other());
                }
                self.names.push(name);
                let mut values = JsonColumn::new();
                entries.next_value_seed(Next { py: self.py, column: &mut values })?;
                self.values.push(values);
            }
            return Ok(());
        }
        for (name, column) in self.names.iter().zip(&mut self.values) {
            if entries.next_key_seed(Is(name))? != Some(true) {
                return Err(other());
            }
            entries.next_value_seed(Next { py: self.py, column })?;
        }
        entries.next_key_seed(Is(""))?.map_or(Ok(()), |_| Err(other()))
    }
}

/// True if a key is this one.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// The next value of a column.
struct Next<'a, 'py> {
    py: Python<'py>,
    column: &'a mut JsonColumn<'py>,
}

impl<'py> Next<'_, 'py> {
    fn push<E: serde::de::Error>(self, value: Result<Bound<'py, PyAny>, E>) -> Result<(), E> {
        self.column.push(&value?).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Next<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Next<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value(self.py).expecting(formatter)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.column.push_integer(self.py, value).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => {
                let value = Value(self.py).visit_u64(value);
                self.push(value)
            }
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.column.push_float(self.py, value).map_err(E::custom)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        let value = Value(self.py).visit_unit();
        self.push(value)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        let value = Value(self.py).visit_bool(value);
        self.push(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        let value = Value(self.py).visit_str(value);
        self.push(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<(), A::Error> {
        let value = Value(self.py).visit_seq(elements);
        self.push(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<(), A::Error> {
        let value = Value(self.py).visit_map(entries);
        self.push(value)
    }
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
