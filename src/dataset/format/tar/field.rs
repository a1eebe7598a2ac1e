//! [`TarField`]: which part of a sample of an archive is read, and as what type.

use super::members::shown;
use crate::dataset::format::array::form::{FirstAxis, NpyForm};
use crate::{DType, Error, Field};

/// A field of the samples of a [`Tar`](crate::Tar).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarField {
    pub(crate) name: String,
    /// In lower case, in order of preference; empty for a field that is not read from a member.
    pub(crate) extensions: Vec<Vec<u8>>,
    pub(crate) value: TarValue,
}

/// The type of the bytes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TarValue {
    /// Any bytes: a variable field of `uint8`.
    Bytes,
    /// A decimal integer, with optional white space around it: `int64`.
    Int,
    /// A decimal number with an optional point or exponent, `inf` or `nan`: `float64`.
    Float,
    /// A `.npy` file: an array with the data type and shape of the first one.
    Npy,
    /// The same, except that the first axis may have any length: a variable field.
    RaggedNpy,
    /// Not a member, but the key of the sample: a variable field of `uint8`.
    Key,
    /// Not a member, but the name of the archive: a variable field of `uint8`.
    Url,
}

impl TarValue {
    pub(crate) fn first_axis(self) -> FirstAxis {
        if self == Self::RaggedNpy { FirstAxis::Ragged } else { FirstAxis::Fixed }
    }
}

impl TarField {
    /// The member with extension `name`, in upper or lower case, as `value`. Several extensions, separated by `;`, mean
    /// the first of them that a sample has.
    #[must_use]
    pub fn new(name: impl Into<String>, value: TarValue) -> Self {
        let name = name.into();
        let extensions = match value {
            TarValue::Key | TarValue::Url => Vec::new(),
            _ => name.split(';').map(|extension| extension.to_ascii_lowercase().into_bytes()).collect(),
        };
        Self { name, extensions, value }
    }

    pub(super) fn is_member(&self) -> bool {
        !matches!(self.value, TarValue::Key | TarValue::Url)
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self.value, TarValue::Npy | TarValue::RaggedNpy)
    }
}

/// The longest text that is read as a number.
pub(super) const LONGEST_NUMBER: u64 = 400;

/// Parses `text` as a number, in native byte order.
pub(crate) fn number(value: TarValue, text: &[u8]) -> Result<[u8; 8], String> {
    let digits = std::str::from_utf8(text.trim_ascii()).unwrap_or("");
    let parsed = match value {
        TarValue::Float => digits.parse::<f64>().map(f64::to_ne_bytes).map_err(|_| "number"),
        _ => digits.parse::<i64>().map(i64::to_ne_bytes).map_err(|_| "integer of 64 bits"),
    };
    parsed.map_err(|kind| format!("{} is not a valid {kind}", shown(&text[..text.len().min(40)])))
}

/// Limit on the bytes of the extra element that marks an array as present: a header alone could claim any size.
const LARGEST_MARK: usize = 16 << 20;

/// Returns the slot's field for `field`; `form` is that of its arrays. A field that may be missing has zero or one
/// elements; a ragged one has an extra first element if present, which tells an empty array from a missing one.
pub(super) fn field_of(field: &TarField, form: Option<&NpyForm>, may_be_missing: MayBeMissing) -> crate::Result<Field> {
    let name = field.name.as_str();
    let refuse = |reason| Err(Error::invalid("fields", reason));
    let fixed = match field.value {
        TarValue::Bytes | TarValue::Key | TarValue::Url => return Ok(Field::variable(name, DType::UInt8, [])),
        TarValue::Int => Field::new(name, DType::Int64, []),
        TarValue::Float => Field::new(name, DType::Float64, []),
        TarValue::Npy => form.map_or_else(|| Field::new(name, DType::Float32, [0]), |form| form.field(name)),
        TarValue::RaggedNpy => {
            let ragged = form.map_or_else(|| Field::variable(name, DType::Float32, []), |form| form.field(name));
            return match ragged.bytes() {
                0 => refuse(format!("{ragged} has elements of 0 bytes, so their number is unknown; omit it")),
                bytes if may_be_missing == MayBeMissing::Yes && bytes > LARGEST_MARK => refuse(format!(
                    "{ragged} may be missing, but its elements have more than {LARGEST_MARK} bytes, so an empty array \
                     can't be distinguished from a missing one; omit it"
                )),
                _ => Ok(ragged),
            };
        }
    };
    match may_be_missing {
        MayBeMissing::No => Ok(fixed),
        MayBeMissing::Yes if fixed.bytes() == 0 => {
            refuse(format!("{fixed} has 0 bytes, so it can't be distinguished from a missing one; omit it"))
        }
        MayBeMissing::Yes => Ok(Field::variable(name, fixed.dtype(), fixed.shape())),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayBeMissing {
    No,
    Yes,
}

impl MayBeMissing {
    /// The bytes before an array of this form in its field: those of one element if a ragged array may be missing.
    pub(super) fn bytes_before(self, form: &NpyForm) -> usize {
        match (form.first_axis(), self) {
            (FirstAxis::Ragged, Self::Yes) => form.field("").bytes(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_or_refused() {
        let int = |text: &str| number(TarValue::Int, text.as_bytes()).map(i64::from_ne_bytes);
        let float = |text: &str| number(TarValue::Float, text.as_bytes()).map(f64::from_ne_bytes);
        assert_eq!((int(" -12\n"), int("+7"), int("9223372036854775807")), (Ok(-12), Ok(7), Ok(i64::MAX)));
        assert_eq!((float("1e3"), float("\t.5 "), float("-inf")), (Ok(1000.0), Ok(0.5), Ok(f64::NEG_INFINITY)));
        for wrong in ["", "1.5", "cat", "9223372036854775808", "1 2", "1_000", "é"] {
            assert!(int(wrong).is_err(), "{wrong}");
        }
        assert!(float("x").is_err() && float("").is_err());
    }
}
