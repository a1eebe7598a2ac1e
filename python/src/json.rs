//! Converts JSON to Python objects, without an intermediate tree of values.

use std::cell::Cell;
use std::fmt;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use super::json_column::JsonColumn;

use serde_json::Deserializer;
use serde_json::de::SliceRead;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

/// Returns the object that `text` represents: dictionaries, lists, strings, numbers, booleans, and None, as from
/// `json.loads`. But numbers beyond the range of floats, and `NaN` and `Infinity`, which are not JSON, are rejected.
/// Python itself parses the few texts with integers of more than 64 bits or `-0`.
///
/// Brackets may be nested 127 deep.
///
/// # Errors
/// What is wrong with the text, with line and column.
pub(super) fn parse<'py>(py: Python<'py>, text: &[u8]) -> Result<Bound<'py, PyAny>, String> {
    let (mut deserializer, is_exact) = (Deserializer::new(SliceRead::new(text)), Cell::new(true));
    let value = Value { py, is_exact: &is_exact }.deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    let value = value.map_err(|error| format!("invalid JSON: {error}"))?;
    if is_exact.get() || !has_long_integer(text) {
        return Ok(value);
    }
    let by_python = || py.import(intern!(py, "json"))?.call_method1(intern!(py, "loads"), (PyBytes::new(py, text),));
    by_python().map_err(|error| format!("invalid JSON: {error}"))
}

/// True if this may have been written as an integer of more than 64 bits, or as `-0`. The parser does not report that.
fn may_be_an_integer(value: f64) -> bool {
    const END: f64 = 9_223_372_036_854_775_808.0; // 2^63
    value.abs() >= END || (value == 0.0 && value.is_sign_negative())
}

/// True if a number in this JSON is an integer that may have more than 64 bits, or is `-0`.
fn has_long_integer(text: &[u8]) -> bool {
    const DIGITS_OF_64_BITS: usize = 19;
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        match first {
            b'"' => rest = &after[end_of_text(after)..],
            b'-' | b'0'..=b'9' => {
                let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let (number, after) = rest.split_at(rest.iter().take_while(|byte| is_of_number(byte)).count());
                let is_integer = number[1..].iter().all(u8::is_ascii_digit);
                if is_integer && (number == b"-0" || number.len() >= DIGITS_OF_64_BITS) {
                    return true;
                }
                rest = after;
            }
            _ => rest = after,
        }
    }
    false
}

/// Returns the position after the closing quote of the string that starts after an opening quote.
fn end_of_text(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns the values of all `texts` by key, in the order of the first one's keys, if each is an object with these keys
/// in this order: a batch is then made without a dictionary per sample. Returns None for anything else, for invalid
/// JSON, or if `parse` leaves a number to Python.
pub(super) fn by_key<'a, 'py>(
    py: Python<'py>,
    texts: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<(String, JsonColumn<'py>)>> {
    let is_exact = Cell::new(true);
    let mut columns =
        Columns { value: Value { py, is_exact: &is_exact }, names: Vec::new(), values: Vec::new(), rows: 0 };
    for text in texts {
        let mut deserializer = Deserializer::new(SliceRead::new(text));
        (&mut columns).deserialize(&mut deserializer).and_then(|()| deserializer.end()).ok()?;
        if !is_exact.replace(true) && has_long_integer(text) {
            return None;
        }
        columns.rows += 1;
    }
    Some(columns.names.into_iter().zip(columns.values).collect())
}

/// The values of objects with the same keys.
struct Columns<'a, 'py> {
    value: Value<'a, 'py>,
    names: Vec<String>,
    values: Vec<JsonColumn<'py>>,
    rows: usize,
}

impl<'de> DeserializeSeed<'de> for &mut Columns<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Columns<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with the same keys as the first one")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let other = || A::Error::custom("different keys than the first one");
        if self.rows == 0 {
            while let Some(name) = entries.next_key::<String>()? {
                // If a key occurs twice, the last value counts; this is left to a dictionary.
                if self.names.contains(&name) {
                    return Err(other());
                }
                self.names.push(name);
                let mut values = JsonColumn::new();
                entries.next_value_seed(Next { value: self.value, column: &mut values })?;
                self.values.push(values);
            }
            return Ok(());
        }
        for (name, column) in self.names.iter().zip(&mut self.values) {
            if entries.next_key_seed(KeyEquals(name))? != Some(true) {
                return Err(other());
            }
            entries.next_value_seed(Next { value: self.value, column })?;
        }
        entries.next_key_seed(KeyEquals(""))?.map_or(Ok(()), |_| Err(other()))
    }
}

/// Reads a key, and returns true if it is this one.
struct KeyEquals<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for KeyEquals<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyEquals<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Reads the next value of a column.
struct Next<'a, 'py> {
    value: Value<'a, 'py>,
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
        self.value.expecting(formatter)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.column.push_integer(self.value.py, value).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => {
                let value = self.value.visit_u64(value);
                self.push(value)
            }
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.value.note(value);
        self.column.push_float(self.value.py, value).map_err(E::custom)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        let value = self.value.visit_unit();
        self.push(value)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        let value = self.value.visit_bool(value);
        self.push(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        let value = self.value.visit_str(value);
        self.push(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<(), A::Error> {
        let value = self.value.visit_seq(elements);
        self.push(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<(), A::Error> {
        let value = self.value.visit_map(entries);
        self.push(value)
    }
}

#[derive(Clone, Copy)]
struct Value<'a, 'py> {
    py: Python<'py>,
    /// False after a number that may differ from the one in the text.
    is_exact: &'a Cell<bool>,
}

impl Value<'_, '_> {
    fn note(self, value: f64) {
        if may_be_an_integer(value) {
            self.is_exact.set(false);
        }
    }
}

impl<'de, 'py> DeserializeSeed<'de> for Value<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for Value<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(PyBool::new(self.py, value).to_owned().into_any())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(PyInt::new(self.py, value).into_any())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(PyInt::new(self.py, value).into_any())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        self.note(value);
        Ok(PyFloat::new(self.py, value).into_any())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(PyString::new(self.py, value).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let list = PyList::empty(self.py);
        while let Some(element) = elements.next_element_seed(self)? {
            list.append(element).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.py);
        // If a key occurs twice, the last value counts, in the position of the first, as in `json.loads`.
        while let Some(key) = entries.next_key_seed(self)? {
            dict.set_item(key, entries.next_value_seed(self)?).map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}
