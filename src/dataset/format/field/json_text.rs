//! [`check`]: checks that a text is a single JSON value.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Where a text is invalid: the byte offset, and the reason.
pub(crate) type Refusal = (usize, String);

/// Fails unless `text` is a single JSON value whose brackets are nested at most 127 deep.
pub(crate) fn check(text: &str) -> Result<(), Refusal> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let result = Anything.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    result.map_err(|error| refusal(text, &error))
}

/// Converts `error` about `text` to an offset and a reason.
pub(crate) fn refusal(text: &str, error: &serde_json::Error) -> Refusal {
    let message = error.to_string();
    let reason = message.rfind(" at line ").map_or(message.as_str(), |end| &message[..end]);
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let place = (before + error.column().saturating_sub(1)).min(text.len());
    let kind = if error.is_data() { "" } else { "invalid JSON: " };
    (place, format!("column {}: {kind}{reason}", place + 1))
}

/// Accepts any value and ignores it.
///
/// `IgnoredAny` would accept brackets of any depth, and escapes that are not valid characters.
#[derive(Clone, Copy)]
pub(crate) struct Anything;

impl<'de> DeserializeSeed<'de> for Anything {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_key_seed(self)?.is_some() {
            entries.next_value_seed(self)?;
        }
        Ok(())
    }
}
