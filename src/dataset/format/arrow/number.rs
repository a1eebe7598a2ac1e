//! [`Number`]: the number types of an Arrow table, and their conversion for a batch.

use arrow_schema::DataType;

use crate::DType;
use crate::memory::widen;

/// A number type of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Bool,
    Integer(DType),
    Float16,
    Float32,
    Float64,
}

impl Number {
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 => Self::Integer(DType::Int8),
            DataType::Int16 => Self::Integer(DType::Int16),
            DataType::Int32 => Self::Integer(DType::Int32),
            DataType::Int64 => Self::Integer(DType::Int64),
            DataType::UInt8 => Self::Integer(DType::UInt8),
            DataType::UInt16 => Self::Integer(DType::UInt16),
            DataType::UInt32 => Self::Integer(DType::UInt32),
            DataType::Float16 => Self::Float16,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            _ => return None,
        })
    }

    /// Returns the size of a number in the table, or `None` for bits.
    pub(crate) fn bytes(self) -> Option<usize> {
        match self {
            Self::Bool => None,
            Self::Integer(dtype) => Some(dtype.bytes()),
            Self::Float16 => Some(2),
            Self::Float32 => Some(4),
            Self::Float64 => Some(8),
        }
    }

    pub(super) fn in_batch(self) -> DType {
        match self {
            Self::Bool => DType::Bool,
            Self::Integer(_) => DType::Int64,
            Self::Float16 | Self::Float32 | Self::Float64 => DType::Float32,
        }
    }

    /// Converts the numbers in `from` to their type in a batch, and writes them to `into`.
    pub(crate) fn convert(self, from: &[u8], into: &mut [u8]) {
        match self {
            Self::Bool | Self::Float32 => into.copy_from_slice(from),
            Self::Integer(dtype) => widen(dtype, from, into),
            Self::Float16 => {
                each::<2>(from, into, |bytes| half(u16::from_ne_bytes(bytes)));
            }
            Self::Float64 => each::<8>(from, into, |bytes| f64::from_ne_bytes(bytes) as f32),
        }
    }
}

fn each<const BYTES: usize>(from: &[u8], into: &mut [u8], value: impl Fn([u8; BYTES]) -> f32) {
    for (from, into) in from.as_chunks::<BYTES>().0.iter().zip(into.as_chunks_mut::<4>().0) {
        *into = value(*from).to_ne_bytes();
    }
}

/// Returns the value of a 16-bit float.
fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(bits >> 15) << 31, u32::from(bits >> 10) & 31, u32::from(bits) & 0x3ff);
    match exponent {
        // A multiple of 2^-24, which float32 represents exactly.
        0 => f32::from_bits((fraction as f32 * 2_f32.powi(-24)).to_bits() | sign),
        31 => f32::from_bits(sign | 0x7f80_0000 | (fraction << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13)),
    }
}
