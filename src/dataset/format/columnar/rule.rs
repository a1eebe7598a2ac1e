//! [`Rule`]: how the values of an Arrow type are converted.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};

use super::nested::Nested;
use super::{Decimals, Reason};
use crate::DType;

/// How values are converted to the bytes of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    /// Bits to bytes.
    Bits,
    /// Unchanged.
    Plain,
    /// 32 bits to `int64`.
    Widen,
    /// Milliseconds to days.
    Days,
    /// A decimal with this many digits after the point to the nearest float.
    Float(i8),
    /// The digits of a decimal as an integer.
    Unscaled,
}

/// What the innermost values of a column become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    /// Elements of one size.
    Fixed {
        conversion: Conversion,
        dtype: DType,
        shape: Vec<usize>,
    },
    /// Byte strings of one length.
    FixedBytes(usize),
    Text,
    Bytes,
    /// Lists that no tensor can hold.
    Nested(Arc<Nested>),
}

/// A rule, and the unit of its numbers: files with different units can't be combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) rule: Rule,
    pub(super) unit: String,
}

impl Meaning {
    /// True if both give the same values once they have been converted.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_equal = match (&self.rule, &other.rule) {
            (Rule::Fixed { dtype, shape, .. }, Rule::Fixed { dtype: other, shape: axes, .. }) => {
                (dtype, shape) == (other, axes)
            }
            (Rule::Nested(nested), Rule::Nested(other)) => nested.as_type().is_like(&other.as_type()),
            (rule, other) => rule == other,
        };
        is_equal && self.unit == other.unit
    }
}

/// Returns the rule for values of type `of`, which are neither variable-length lists nor structs.
pub(super) fn rule_of(of: &DataType, decimals: Decimals) -> Result<Meaning, Reason> {
    let fixed =
        |conversion, dtype, unit: String| Meaning { rule: Rule::Fixed { conversion, dtype, shape: Vec::new() }, unit };
    let plain = |dtype| fixed(Conversion::Plain, dtype, String::new());
    let whole = |rule| Meaning { rule, unit: String::new() };
    Ok(match of {
        DataType::Boolean => fixed(Conversion::Bits, DType::Bool, String::new()),
        DataType::Int8 => plain(DType::Int8),
        DataType::Int16 => plain(DType::Int16),
        DataType::Int32 => plain(DType::Int32),
        DataType::Int64 => plain(DType::Int64),
        DataType::UInt8 => plain(DType::UInt8),
        DataType::UInt16 => plain(DType::UInt16),
        DataType::UInt32 => plain(DType::UInt32),
        DataType::UInt64 => plain(DType::UInt64),
        DataType::Float16 => plain(DType::Float16),
        DataType::Float32 => plain(DType::Float32),
        DataType::Float64 => plain(DType::Float64),
        DataType::Timestamp(unit, zone) => {
            let since = if zone.is_some() { "1970 UTC" } else { "1970" };
            fixed(Conversion::Plain, DType::Int64, format!("{} since {since}", name(*unit)))
        }
        DataType::Time64(unit) => fixed(Conversion::Plain, DType::Int64, format!("{} since midnight", name(*unit))),
        DataType::Time32(unit) => fixed(Conversion::Widen, DType::Int64, format!("{} since midnight", name(*unit))),
        DataType::Duration(unit) => fixed(Conversion::Plain, DType::Int64, name(*unit).into()),
        DataType::Date32 => fixed(Conversion::Widen, DType::Int64, "days since 1970".into()),
        DataType::Date64 => fixed(Conversion::Days, DType::Int64, "days since 1970".into()),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => match decimals {
            Decimals::Float => fixed(Conversion::Float(*scale), DType::Float64, String::new()),
            Decimals::Unscaled => {
                fixed(Conversion::Unscaled, DType::Int64, format!("units of 1e{}", -i16::from(*scale)))
            }
        },
        DataType::FixedSizeBinary(bytes) => whole(Rule::FixedBytes(size(*bytes)?)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => whole(Rule::Text),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => whole(Rule::Bytes),
        DataType::Dictionary(_, values) => return rule_of(values, decimals),
        DataType::FixedSizeList(item, len) => {
            let len = size(*len)?;
            let Meaning { rule, unit } = rule_of(item.data_type(), decimals)?;
            match rule {
                Rule::Fixed { conversion, dtype, mut shape } => {
                    shape.insert(0, len);
                    Meaning { rule: Rule::Fixed { conversion, dtype, shape }, unit }
                }
                _ => return Err(format!("lists of type {of} are not supported")),
            }
        }
        DataType::Null => {
            return Err(
                "values of type Null are not supported (write the column with the type that its values would have, \
                 such as binary)"
                    .into(),
            );
        }
        other => return Err(format!("values of type {other} are not supported")),
    })
}

fn size(number: i32) -> Result<usize, Reason> {
    usize::try_from(number).map_err(|_| format!("its values have a size of {number} bytes"))
}

fn name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "milliseconds",
        TimeUnit::Microsecond => "microseconds",
        TimeUnit::Nanosecond => "nanoseconds",
    }
}
