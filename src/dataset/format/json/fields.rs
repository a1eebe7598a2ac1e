//! Decodes the fields of a JSON object directly into columns.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::dataset::format::field::decoding::{Decoded, DecodedColumn};
use crate::dataset::format::field::json_text::{Anything, Refusal, check, refusal};
use crate::dataset::format::field::nested_type::len_bytes;
use crate::dataset::format::field::number::Number;
use crate::dataset::format::field::typed_field::{Content, TypedField};

/// Fills the columns of `fields` with the values of the object in `text` under their names, or with their defaults.
pub(super) fn read_fields(text: &str, fields: &[TypedField], into: &mut Decoded) -> Result<(), Refusal> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = Object { fields, into, seen: vec![false; fields.len()] };
    let result = (&mut deserializer).deserialize_map(object).and_then(|()| deserializer.end());
    result.map_err(|error| refusal(text, &error))
}

struct Object<'a> {
    fields: &'a [TypedField],
    into: &'a mut Decoded,
    seen: Vec<bool>,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(found) = entries.next_key_seed(Name(self.fields))? {
            let Some(number) = found else {
                entries.next_value_seed(Anything)?;
                continue;
            };
            let (typed, column) = (&self.fields[number], self.into.column(number));
            // The last value of a duplicate key counts.
            column.clear_sample();
            self.seen[number] = entries.next_value_seed(Value { typed, column })?;
        }
        for (number, typed) in self.fields.iter().enumerate() {
            if self.seen[number] {
                continue;
            }
            let Some(default) = typed.default() else {
                return Err(A::Error::custom(format!(
                    "field `{}` is missing or null, and has no default",
                    typed.field().name()
                )));
            };
            self.into.column(number).bytes.extend(default);
        }
        Ok(())
    }
}

/// Decodes a key to the number of the field of that name.
struct Name<'a>(&'a [TypedField]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|typed| typed.field().name() == name))
    }
}

/// Decodes the value of a field; returns false if it is null.
struct Value<'a> {
    typed: &'a TypedField,
    column: &'a mut DecodedColumn,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        if self.typed.content() != Content::Json {
            let axes = self.typed.field().shape().len() + usize::from(self.typed.field().is_variable());
            return deserializer.deserialize_any(Part { typed: self.typed, column: self.column, axis: 0, axes });
        }
        let value: &RawValue = serde::Deserialize::deserialize(deserializer)?;
        if value.get() == "null" && self.typed.default().is_some() {
            return Ok(false);
        }
        check(value.get()).map_err(|(_, reason)| D::Error::custom(reason))?;
        self.column.bytes.extend(value.get().as_bytes());
        Ok(true)
    }
}

/// A string, a number, or a list of them that is axis `axis` of the field.
struct Part<'a> {
    typed: &'a TypedField,
    column: &'a mut DecodedColumn,
    axis: usize,
    axes: usize,
}

impl Part<'_> {
    fn refuse<T, E: serde::de::Error>(&self, found: impl fmt::Display) -> Result<T, E> {
        Err(E::custom(format!("field `{}`: {found}, expected {}", self.typed.field().name(), self.wanted())))
    }

    fn wanted(&self) -> String {
        match self.typed.content() {
            Content::Number if self.axis < self.axes => format!("a list of {}", self.typed.field().dtype()),
            Content::Number => self.typed.field().dtype().to_string(),
            Content::Texts | Content::ByteStrings if self.axis == 0 => "a list of strings".to_owned(),
            _ => "a string".to_owned(),
        }
    }

    /// A list of strings, none of which is null.
    fn texts<'de, A: SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
        let Self { typed, column, axis, axes } = self;
        column.bytes.push(0);
        // Placeholder for its length, and the byte that says that there are no nulls.
        let at = column.bytes.len();
        column.bytes.extend([0; 5]);
        let mut found = 0;
        while elements.next_element_seed(Part { typed, column: &mut *column, axis: axis + 1, axes })?.is_some() {
            found += 1;
        }
        column.bytes[at..at + 4].copy_from_slice(&len_bytes(found).map_err(A::Error::custom)?);
        Ok(true)
    }

    fn number<E: serde::de::Error>(self, number: Number) -> Result<bool, E> {
        if self.typed.content() != Content::Number || self.axis < self.axes {
            return self.refuse("a number or a boolean");
        }
        let pushed = number.push(self.typed.field().dtype(), &mut self.column.bytes);
        pushed.map_err(|reason| E::custom(format!("field `{}`: {reason}", self.typed.field().name())))?;
        Ok(true)
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.wanted())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<bool, E> {
        if self.axis > 0 { self.refuse("a null in a list") } else { Ok(false) }
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<bool, E> {
        self.number(Number::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<bool, E> {
        self.number(Number::Signed(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<bool, E> {
        self.number(Number::Unsigned(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<bool, E> {
        self.number(Number::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<bool, E> {
        match self.typed.content() {
            Content::Text | Content::Bytes => {
                self.column.bytes.extend(text.as_bytes());
                Ok(true)
            }
            Content::Texts | Content::ByteStrings if self.axis == 1 => {
                self.column.bytes.extend(len_bytes(text.len()).map_err(E::custom)?);
                self.column.bytes.extend(text.as_bytes());
                Ok(true)
            }
            _ => self.refuse("a string"),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
        if self.typed.content().is_list() && self.axis == 0 {
            return self.texts(elements);
        }
        if self.typed.content() != Content::Number || self.axis >= self.axes {
            return self.refuse("a list");
        }
        let Self { typed, column, axis, axes } = self;
        let expected = match typed.field().is_variable() {
            true => axis.checked_sub(1).map(|axis| typed.field().shape()[axis]),
            false => Some(typed.field().shape()[axis]),
        };
        let mut found = 0_usize;
        while expected.is_none_or(|expected| found < expected) {
            let part = Part { typed, column: &mut *column, axis: axis + 1, axes };
            if elements.next_element_seed(part)?.is_none() {
                break;
            }
            found += 1;
        }
        let more = expected == Some(found) && elements.next_element::<IgnoredAny>()?.is_some();
        if more || expected.is_some_and(|expected| expected != found) {
            let (name, more) = (typed.field().name(), if more { "more than " } else { "" });
            let found = format!("expected a list of {} values, got {more}{found}", expected.unwrap_or(0));
            return Err(A::Error::custom(format!("field `{name}`: {found}")));
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<bool, A::Error> {
        self.refuse("an object")
    }
}
