//! `tf.train.Example`: a message of named lists of bytes, floats or integers.
//!
//! ```text
//! Example  { Features features = 1 }
//! Features { map<string, Feature> feature = 1 }       an entry is a message { string key = 1; Feature value = 2 }
//! Feature  { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3 } }
//! lists    { repeated value = 1 }                     floats and integers packed or one by one
//! ```
//! As the specification of protocol buffers requires, repeated messages are merged, the last of several entries with
//! the same key counts, and the last value set in a oneof. Unknown fields are skipped.

use super::protobuf::{Malformed, Message, Wire, varint};

/// A feature: the kind that was set last, and the messages of its list, to be read one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Feature<'a> {
    kind: Option<Kind>,
    lists: Vec<&'a [u8]>,
}

/// The type of the values in a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bytes,
    Floats,
    Integers,
}

/// Calls `visit` with the name and the feature of each entry of `example`, in order. If a name occurs again, the later
/// feature counts.
pub(crate) fn features<'a>(
    example: &'a [u8],
    mut visit: impl FnMut(&'a str, Feature<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut example = Message::new(example);
    while let Some((field, value)) = example.next()? {
        let (1, Wire::Bytes(features)) = (field, value) else { continue };
        let mut features = Message::new(features);
        while let Some((field, value)) = features.next()? {
            let (1, Wire::Bytes(entry)) = (field, value) else { continue };
            let (name, feature) = entry_of(entry)?;
            visit(name, feature)?;
        }
    }
    Ok(())
}

fn entry_of(entry: &[u8]) -> Result<(&str, Feature<'_>), Malformed> {
    let (mut name, mut feature, mut entry) = ("", Feature::default(), Message::new(entry));
    while let Some((field, value)) = entry.next()? {
        match (field, value) {
            (1, Wire::Bytes(key)) => {
                name = std::str::from_utf8(key).map_err(|_| "the name of a feature is not UTF-8 text")?;
            }
            (2, Wire::Bytes(value)) => feature.merge(value)?,
            _ => {}
        }
    }
    Ok((name, feature))
}

impl<'a> Feature<'a> {
    fn merge(&mut self, feature: &'a [u8]) -> Result<(), Malformed> {
        let mut feature = Message::new(feature);
        while let Some((field, value)) = feature.next()? {
            let (kind, Wire::Bytes(list)) = (field, value) else { continue };
            let kind = match kind {
                1 => Kind::Bytes,
                2 => Kind::Floats,
                3 => Kind::Integers,
                _ => continue,
            };
            if self.kind != Some(kind) {
                self.lists.clear();
                self.kind = Some(kind);
            }
            self.lists.push(list);
        }
        Ok(())
    }

    /// The type of its values; `None` if it is not set.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Calls `visit` with each of its byte strings.
    pub(super) fn bytes(&self, mut visit: impl FnMut(&'a [u8]) -> Result<(), String>) -> Result<(), String> {
        self.values(|value| match value {
            Wire::Bytes(bytes) => visit(bytes),
            _ => Ok(()),
        })
    }

    /// Calls `visit` with each of its floats.
    pub(super) fn floats(&self, mut visit: impl FnMut(f32) -> Result<(), String>) -> Result<(), String> {
        self.values(|value| match value {
            Wire::Fixed32(bytes) => visit(f32::from_le_bytes(bytes)),
            Wire::Bytes(packed) => {
                let (floats, rest) = packed.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(format!("packed floats of {} bytes, which is not a multiple of 4", packed.len()));
                }
                floats.iter().try_for_each(|bytes| visit(f32::from_le_bytes(*bytes)))
            }
            _ => Ok(()),
        })
    }

    /// Calls `visit` with each of its integers.
    pub(super) fn integers(&self, mut visit: impl FnMut(i64) -> Result<(), String>) -> Result<(), String> {
        self.values(|value| match value {
            Wire::Varint(number) => visit(number as i64),
            Wire::Bytes(mut packed) => {
                while !packed.is_empty() {
                    let (number, length) = varint(packed)?;
                    packed = &packed[length..];
                    visit(number as i64)?;
                }
                Ok(())
            }
            _ => Ok(()),
        })
    }

    /// Counts the values, up to `most` + 1.
    pub(super) fn count(&self, most: usize) -> Result<usize, String> {
        let mut count = 0_usize;
        let counted = match self.kind {
            None => Ok(()),
            Some(Kind::Bytes) => self.bytes(|_| tally(&mut count, most)),
            Some(Kind::Floats) => self.floats(|_| tally(&mut count, most)),
            Some(Kind::Integers) => self.integers(|_| tally(&mut count, most)),
        };
        if count > most { Ok(count) } else { counted.map(|()| count) }
    }

    fn values(&self, mut visit: impl FnMut(Wire<'a>) -> Result<(), String>) -> Result<(), String> {
        for list in &self.lists {
            let mut list = Message::new(list);
            while let Some((field, value)) = list.next()? {
                if field == 1 {
                    visit(value)?;
                }
            }
        }
        Ok(())
    }
}

/// Counts one more; fails beyond `most`, to stop the counting.
fn tally(count: &mut usize, most: usize) -> Result<(), String> {
    *count += 1;
    if *count > most { Err(String::new()) } else { Ok(()) }
}
