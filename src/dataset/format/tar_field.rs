//! [`TarField`]: what of a sample of an archive is read, and as what.

use super::npy_header::{LONGEST_HEADER, NpyHeader};
use super::tar_members::shown;
use crate::{DType, Error, Field};

/// A field of the samples of a [`Tar`](crate::Tar).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarField {
    pub(super) name: String,
    /// In lower case, the one to be preferred first; none where it is not a member that is read.
    pub(super) extensions: Vec<Vec<u8>>,
    pub(super) value: TarValue,
}

/// What the bytes of a member are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TarValue {
    /// Any bytes: a variable field of `uint8`.
    Bytes,
    /// A decimal number, with white space around it: `int64`.
    Int,
    /// A decimal number with a point or an exponent, `inf` or `nan`: `float64`.
    Float,
    /// A `.npy` file: an array, of the data type and shape that the first one has.
    Npy,
    /// No member, but the key of the sample: a variable field of `uint8`.
    Key,
    /// No member, but the name of the archive: a variable field of `uint8`.
    Url,
}

impl TarField {
    /// The member with extension `name`, in upper or lower case, as `value`. Several extensions with `;` between them mean
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
}

/// What all arrays of a field are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NpyForm {
    header: NpyHeader,
    /// The bytes before the array, of the file that the form was taken from: mostly all others have the same.
    head: Vec<u8>,
}

impl NpyForm {
    /// The form of the `.npy` file that begins with `bytes`.
    pub(super) fn new(bytes: &[u8]) -> Result<Self, String> {
        let header = NpyHeader::parse(bytes).map_err(|(at, reason)| format!("byte {at} of it: {reason}"))?;
        let head = bytes[..header.data_offset].to_vec();
        Ok(Self { header, head })
    }

    pub(super) fn field(&self, name: &str) -> Field {
        Field::new(name, self.header.dtype, self.header.shape.clone())
    }

    /// So many bytes of a file have to be read to know its form.
    pub(super) const HEAD: usize = LONGEST_HEADER + 12;

    /// Writes the array of the file `bytes` to `into`, in C order.
    pub(super) fn read(&self, bytes: &[u8], into: &mut [u8]) -> Result<(), String> {
        let other;
        let header = if bytes.starts_with(&self.head) {
            &self.header
        } else {
            other = Self::new(bytes)?.header;
            if (other.dtype, &other.shape) != (self.header.dtype, &self.header.shape) {
                return Err(format!(
                    "it is {}{:?}, but the first one is {}{:?}: arrays of one field are stacked, so they must agree; read \
                     others as \"bytes\"",
                    other.dtype, other.shape, self.header.dtype, self.header.shape
                ));
            }
            &other
        };
        let data = &bytes[header.data_offset..];
        if data.len() < into.len() {
            return Err(format!("it has {} bytes of the {} of its array: it was cut", data.len(), into.len()));
        }
        match header.fortran_order && header.shape.len() > 1 {
            false => into.copy_from_slice(&data[..into.len()]),
            true => transpose(data, into, &header.shape, header.dtype.bytes()),
        }
        Ok(())
    }
}

/// From Fortran's order to C's.
fn transpose(from: &[u8], into: &mut [u8], shape: &[usize], item: usize) {
    let mut index = vec![0; shape.len()];
    for into in into.chunks_exact_mut(item) {
        let place = index.iter().zip(shape).rev().fold(0, |place, (&index, &size)| place * size + index);
        into.copy_from_slice(&from[place * item..][..item]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// The longest text that is read as a number.
pub(super) const LONGEST_NUMBER: u64 = 400;

/// The number that `text` is, in the machine's byte order.
pub(super) fn number(value: TarValue, text: &[u8]) -> Result<[u8; 8], String> {
    let digits = std::str::from_utf8(text.trim_ascii()).unwrap_or("");
    let parsed = match value {
        TarValue::Float => digits.parse::<f64>().map(f64::to_ne_bytes).map_err(|_| "number"),
        _ => digits.parse::<i64>().map(i64::to_ne_bytes).map_err(|_| "integer of 64 bits"),
    };
    parsed.map_err(|kind| format!("{} is no {kind}", shown(&text[..text.len().min(40)])))
}

/// The field that a slot has for `field`; `form` is that of its arrays. One that may be missing has no element or one, or is
/// bytes, of which the first one stands for there being any.
pub(super) fn field_of(field: &TarField, form: Option<&NpyForm>, may_be_missing: MayBeMissing) -> crate::Result<Field> {
    let name = field.name.as_str();
    let fixed = match field.value {
        TarValue::Bytes | TarValue::Key | TarValue::Url => return Ok(Field::variable(name, DType::UInt8, [])),
        TarValue::Int => Field::new(name, DType::Int64, []),
        TarValue::Float => Field::new(name, DType::Float64, []),
        TarValue::Npy => form.map_or_else(|| Field::new(name, DType::Float32, [0]), |form| form.field(name)),
    };
    match may_be_missing {
        MayBeMissing::No => Ok(fixed),
        MayBeMissing::Yes if fixed.bytes() == 0 => {
            let reason = format!("{fixed} has no bytes, so that nobody could tell whether it is missing: leave it out");
            Err(Error::InvalidArgument { argument: "fields", reason })
        }
        MayBeMissing::Yes => Ok(Field::variable(name, fixed.dtype(), fixed.shape())),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayBeMissing {
    No,
    Yes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_their_text_says_or_refused() {
        let int = |text: &str| number(TarValue::Int, text.as_bytes()).map(i64::from_ne_bytes);
        let float = |text: &str| number(TarValue::Float, text.as_bytes()).map(f64::from_ne_bytes);
        assert_eq!((int(" -12\n"), int("+7"), int("9223372036854775807")), (Ok(-12), Ok(7), Ok(i64::MAX)));
        assert_eq!((float("1e3"), float("\t.5 "), float("-inf")), (Ok(1000.0), Ok(0.5), Ok(f64::NEG_INFINITY)));
        for wrong in ["", "1.5", "cat", "9223372036854775808", "1 2", "1_000", "é"] {
            assert!(int(wrong).is_err(), "{wrong}");
        }
        assert!(float("x").is_err() && float("").is_err());
    }

    #[test]
    fn arrays_in_fortran_order_are_turned() {
        let mut file =
            b"\x93NUMPY\x01\x00\x00\x00{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n".to_vec();
        file[8] = (file.len() - 10) as u8;
        file.extend([0, 3, 1, 4, 2, 5]);
        let form = NpyForm::new(&file).unwrap();
        let mut into = [9; 6];
        form.read(&file, &mut into).unwrap();
        assert_eq!(into, [0, 1, 2, 3, 4, 5]);
        for end in 0..file.len() {
            assert!(form.read(&file[..end], &mut into).is_err(), "cut at {end}");
        }
    }
}
