//! [`NestedType`]: the type of the values of a nested column, and their encoding in bytes.

use std::fmt;

use crate::DType;

/// The type of the values of a nested column, each a variable field of bytes, which [`value`](Self::value) decodes.
///
/// The bytes of a value are a sequence of length one. A sequence begins with a byte: 0 if no value is null; otherwise
/// 1, then a byte per value, which is 1 if the value is present. The present values follow: a number as its bytes; a
/// string or byte string as its length and its bytes; a list as its length and the sequence of its items; a dictionary
/// as a sequence of length one per entry. Lengths have 32 bits; everything is in native byte order.
///
/// # Example
/// ```
/// use sluicegate::{NestedType, NestedValue};
/// let texts = NestedType::List(Box::new(NestedType::Text));
/// let bytes = [&[0][..], &2_u32.to_ne_bytes(), &[1, 1, 0], &1_u32.to_ne_bytes(), b"a"].concat();
/// assert_eq!(texts.value(&bytes), Some(NestedValue::List(vec![NestedValue::Bytes(b"a"), NestedValue::Null])));
/// assert_eq!(texts.value(b"?"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NestedType {
    /// Numbers or booleans.
    Number(DType),
    /// Strings.
    Text,
    /// Byte strings.
    Bytes,
    /// Lists of values of this type.
    List(Box<NestedType>),
    /// Values by name, in order.
    Dict(Vec<(String, NestedType)>),
}

/// A value of a nested column.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum NestedValue<'a> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
    /// A byte string, or the bytes of a string, which was not checked to be UTF-8.
    Bytes(&'a [u8]),
    /// The items of a list.
    List(Vec<NestedValue<'a>>),
    /// The values of a dictionary, in the order of its type.
    Dict(Vec<NestedValue<'a>>),
}

impl NestedType {
    /// Decodes `bytes`; `None` if they are not a value of this type.
    #[must_use]
    pub fn value<'a>(&self, bytes: &'a [u8]) -> Option<NestedValue<'a>> {
        let mut bytes = NestedBytes::new(bytes);
        let value = self.sequence(&mut bytes, 1)?.pop();
        value.filter(|_| bytes.is_empty())
    }

    fn sequence<'a>(&self, bytes: &mut NestedBytes<'a>, len: usize) -> Option<Vec<NestedValue<'a>>> {
        let presence = bytes.presence(len)?;
        let value = |row| if presence.is_present(row) { self.present_value(bytes) } else { Some(NestedValue::Null) };
        (0..len).map(value).collect()
    }

    fn present_value<'a>(&self, bytes: &mut NestedBytes<'a>) -> Option<NestedValue<'a>> {
        Some(match self {
            Self::Number(dtype) => bytes.number(*dtype)?,
            Self::Text | Self::Bytes => NestedValue::Bytes(bytes.string()?),
            Self::List(item) => {
                let len = bytes.len()?;
                NestedValue::List(item.sequence(bytes, len)?)
            }
            Self::Dict(parts) => {
                let part = |(_, part): &(String, Self)| part.sequence(bytes, 1)?.pop();
                NestedValue::Dict(parts.iter().map(part).collect::<Option<_>>()?)
            }
        })
    }

    /// True if values of both types can be in the same batch: dictionary entries may be in any order.
    #[cfg(feature = "arrow")]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(item), Self::List(other)) => item.is_like(other),
            (Self::Dict(parts), Self::Dict(others)) => {
                let same = |(name, part): &(String, Self)| {
                    others.iter().any(|(other, of_other)| name == other && part.is_like(of_other))
                };
                parts.len() == others.len() && parts.iter().all(same)
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for NestedType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(dtype) => dtype.fmt(formatter),
            Self::Text => formatter.write_str("text"),
            Self::Bytes => formatter.write_str("bytes"),
            Self::List(item) => write!(formatter, "list[{item}]"),
            Self::Dict(parts) => {
                let parts: Vec<String> = parts.iter().map(|(name, part)| format!("{name}: {part}")).collect();
                write!(formatter, "{{{}}}", parts.join(", "))
            }
        }
    }
}

/// The unread rest of the bytes of a value.
pub struct NestedBytes<'a>(&'a [u8]);

/// Which values of a sequence are present.
pub enum Presence<'a> {
    All,
    /// One byte per value.
    Some(&'a [u8]),
}

impl Presence<'_> {
    pub fn is_present(&self, place: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(marks) => marks[place] != 0,
        }
    }
}

impl<'a> NestedBytes<'a> {
    /// A reader of the `bytes` of a value.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True if nothing is left to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads which of the next `len` values are present.
    pub fn presence(&mut self, len: usize) -> Option<Presence<'a>> {
        match self.take(1)? {
            [0] => Some(Presence::All),
            _ => self.take(len).map(Presence::Some),
        }
    }

    /// Reads the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads the next number.
    pub fn number(&mut self, dtype: DType) -> Option<NestedValue<'static>> {
        nested_number(self.take(dtype.bytes())?, dtype)
    }

    /// Reads the next length.
    pub fn len(&mut self) -> Option<usize> {
        let (len, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        // A value takes at least a byte, in itself or as a mark in its list, so a wrong length can't use much memory.
        Some(u32::from_ne_bytes(*len) as usize)
    }

    /// Reads the next string or byte string.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.len()?;
        self.take(len)
    }
}

/// Encodes a length.
pub(crate) fn len_bytes(len: usize) -> Result<[u8; 4], String> {
    let len = u32::try_from(len).map_err(|_| format!("a list, or a text in one, of length {len}"))?;
    Ok(len.to_ne_bytes())
}

/// Decodes a number; `None` if the bytes do not fit `dtype`, or lists can't have that data type.
pub(crate) fn nested_number(bytes: &[u8], dtype: DType) -> Option<NestedValue<'static>> {
    macro_rules! int {
        ($type:ty) => {
            NestedValue::Int(i128::from(<$type>::from_ne_bytes(bytes.try_into().ok()?)))
        };
    }
    Some(match dtype {
        DType::Bool => NestedValue::Bool(bytes != [0]),
        DType::UInt8 => int!(u8),
        DType::Int8 => int!(i8),
        DType::UInt16 => int!(u16),
        DType::Int16 => int!(i16),
        DType::UInt32 => int!(u32),
        DType::Int32 => int!(i32),
        DType::UInt64 => int!(u64),
        DType::Int64 => int!(i64),
        DType::Float16 => NestedValue::Float(half(u16::from_ne_bytes(bytes.try_into().ok()?))),
        DType::Float32 => NestedValue::Float(f64::from(f32::from_ne_bytes(bytes.try_into().ok()?))),
        DType::Float64 => NestedValue::Float(f64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}

/// Converts the bits of a half-precision float.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    };
    size.copysign(if bits >> 15 == 0 { 1.0 } else { -1.0 })
}

#[cfg(all(test, feature = "arrow"))]
mod tests {
    use super::*;

    #[test]
    fn half_floats_convert_like_arrow() {
        type Half = <arrow_array::types::Float16Type as arrow_array::ArrowPrimitiveType>::Native;
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (half(bits), Half::from_bits(bits).to_f64());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:04x}: {ours}");
        }
    }
}
