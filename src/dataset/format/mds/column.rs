//! [`MdsColumn`]: a column of MDS, and the field that it becomes.

use super::index::ColumnForm;
use crate::dataset::format::field::number::Number;
use crate::dataset::format::field::typed_field::TypedField;
use crate::{DType, Field};

/// How the values of a column are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Encoding {
    /// The bytes of the field, unchanged.
    Plain,
    Text,
    Json,
    /// A number as text.
    Digits(DType),
    /// An array; its shape, and its data type if the column has none, are in each value.
    Array {
        dtype: Option<DType>,
        shape: Option<Vec<usize>>,
    },
}

/// A column: how its values are encoded, and the field that they become.
#[derive(Debug, Clone)]
pub(super) struct MdsColumn {
    encoding: Encoding,
    typed: TypedField,
}

/// The data types of arrays, by their codes in the format.
const ARRAYS: [(u8, DType); 11] = [
    (8, DType::UInt8),
    (9, DType::Int8),
    (16, DType::UInt16),
    (17, DType::Int16),
    (18, DType::Float16),
    (32, DType::UInt32),
    (33, DType::Int32),
    (34, DType::Float32),
    (64, DType::UInt64),
    (65, DType::Int64),
    (66, DType::Float64),
];

/// The most axes of an array.
const MOST_AXES: usize = 63;

type Reason = String;

impl MdsColumn {
    /// Makes the column that `form` describes. What it lacks about arrays is taken from `first`, one of the values.
    pub(super) fn new(form: &ColumnForm, first: Option<&[u8]>) -> Result<Self, Reason> {
        let name = form.name.as_str();
        let (kind, details) = form.encoding.split_once(':').unwrap_or((&form.encoding, ""));
        let scalar = |dtype: DType| (Encoding::Plain, TypedField::plain(Field::new(name, dtype, [])));
        let (encoding, typed) = match kind {
            "int" => scalar(DType::Int64),
            "bytes" | "jpeg" | "png" => (Encoding::Plain, TypedField::bytes(name)),
            "str" | "str_decimal" => (Encoding::Text, TypedField::text(name)),
            "json" => (Encoding::Json, TypedField::json(name)),
            "str_int" => (Encoding::Digits(DType::Int64), TypedField::plain(Field::new(name, DType::Int64, []))),
            "str_float" => (Encoding::Digits(DType::Float64), TypedField::plain(Field::new(name, DType::Float64, []))),
            "ndarray" => array(name, details, first)?,
            "pkl" => {
                return Err(
                    "its values are pickles, which can run arbitrary code and are never loaded; name the other columns"
                        .into(),
                );
            }
            dtype => match array_type(dtype) {
                Some(dtype) => scalar(dtype),
                None => {
                    return Err(format!("the encoding `{}` is not supported; name the other columns", form.encoding));
                }
            },
        };
        let expected = match &encoding {
            Encoding::Plain if !typed.field().is_variable() => Some(typed.field().bytes() as u64),
            Encoding::Array { dtype: Some(_), shape: Some(_) } => Some(typed.field().bytes() as u64),
            _ => None,
        };
        if form.bytes != expected {
            return Err(format!(
                "values of `{}` have {expected:?} bytes, but the index declares {:?}",
                form.encoding, form.bytes
            ));
        }
        Ok(Self { encoding, typed })
    }

    pub(super) fn typed(&self) -> &TypedField {
        &self.typed
    }

    /// True if `form` leaves the data type or shape of its arrays to each value.
    pub(super) fn needs_value(form: &ColumnForm) -> bool {
        form.encoding == "ndarray" || form.encoding.starts_with("ndarray:") && form.bytes.is_none()
    }

    /// Appends the decoded `value` to `into`.
    pub(super) fn push(&self, value: &[u8], into: &mut Vec<u8>) -> Result<(), Reason> {
        let field = self.typed.field();
        match &self.encoding {
            Encoding::Plain => push_numbers(value, field.dtype(), into),
            Encoding::Text => {
                let text = std::str::from_utf8(value).map_err(|error| not_utf8(&error))?;
                into.extend(text.as_bytes());
            }
            Encoding::Json => {
                let text = std::str::from_utf8(value).map_err(|error| not_utf8(&error))?;
                crate::dataset::format::field::json_text::check(text).map_err(|(_, reason)| reason)?;
                into.extend(text.as_bytes());
            }
            Encoding::Digits(dtype) => {
                let text = std::str::from_utf8(value).map_err(|error| not_utf8(&error))?;
                let number = Number::parse(text.trim(), *dtype);
                let shown: String = text.chars().take(60).collect();
                number.ok_or_else(|| format!("{shown:?} is not a valid {dtype}"))?.push(*dtype, into)?;
            }
            Encoding::Array { dtype, shape } => {
                let array = Array::parse(value, *dtype, shape.clone())?;
                let inner = if field.is_variable() { array.shape.get(1..) } else { Some(&array.shape[..]) };
                if array.dtype != field.dtype() || inner != Some(field.shape()) {
                    let found = format!("{} {:?}", array.dtype, array.shape);
                    return Err(format!(
                        "the value is an array of {found}, but that of the first sample of the dataset is {field}"
                    ));
                }
                push_numbers(array.bytes, array.dtype, into);
            }
        }
        Ok(())
    }
}

fn not_utf8(error: &std::str::Utf8Error) -> Reason {
    format!("the value is not UTF-8 text from byte {} on", error.valid_up_to())
}

/// Appends numbers, which are little-endian in the format, in native byte order.
fn push_numbers(value: &[u8], dtype: DType, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend(value);
    if cfg!(target_endian = "big") {
        into[start..].chunks_exact_mut(dtype.bytes()).for_each(<[u8]>::reverse);
    }
}

fn array_type(name: &str) -> Option<DType> {
    ARRAYS.iter().map(|(_, dtype)| *dtype).find(|dtype| dtype.name() == name)
}

fn array(name: &str, details: &str, first: Option<&[u8]>) -> Result<(Encoding, TypedField), Reason> {
    let (dtype, shape) = details.split_once(':').map_or((details, None), |(dtype, shape)| (dtype, Some(shape)));
    let dtype = match dtype {
        "" => None,
        name => Some(array_type(name).ok_or_else(|| format!("the format has no arrays of `{name}`"))?),
    };
    let shape =
        shape.map(|shape| shape.split(',').map(|size| size.trim().parse().ok()).collect::<Option<Vec<usize>>>());
    let shape = shape
        .map(|shape| shape.ok_or_else(|| format!("`{details}` is not a valid array encoding: it has no valid shape")))
        .transpose()?;
    if shape.as_ref().is_some_and(|shape| shape.len() > MOST_AXES) {
        return Err(format!("an array has more than {MOST_AXES} axes"));
    }
    let field = match (dtype, &shape) {
        (Some(dtype), Some(shape)) => Field::new(name, dtype, &shape[..]),
        _ => {
            let Some(first) = first else {
                return Err("there is no sample from which to infer data type and shape".into());
            };
            let first = Array::parse(first, dtype, shape.clone())?;
            match (&shape, first.shape.split_first()) {
                (Some(shape), _) => Field::new(name, first.dtype, &shape[..]),
                (None, Some((_, inner))) => Field::variable(name, first.dtype, inner),
                (None, None) => {
                    return Err("the first array is a scalar, but the format needs at least one axis".into());
                }
            }
        }
    };
    if field.bytes() > isize::MAX as usize {
        return Err(format!("{field} is too large for any memory"));
    }
    Ok((Encoding::Array { dtype, shape }, TypedField::plain(field)))
}

/// An encoded array.
struct Array<'a> {
    dtype: DType,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    fn parse(value: &'a [u8], dtype: Option<DType>, shape: Option<Vec<usize>>) -> Result<Self, Reason> {
        let short = || "the array is truncated: it ends inside its header".to_owned();
        let mut rest = value;
        let dtype = match dtype {
            Some(dtype) => dtype,
            None => {
                let (&number, after) = rest.split_first().ok_or_else(short)?;
                rest = after;
                let found = ARRAYS.iter().find(|(of, _)| *of == number);
                found.ok_or_else(|| format!("the data type number {number} is unknown"))?.1
            }
        };
        let shape = match shape {
            Some(shape) => shape,
            None => {
                let (&form, after) = rest.split_first().ok_or_else(short)?;
                let (axes, width) = (usize::from(form >> 2), 1 << (form & 3));
                let (sizes, after) = after.split_at_checked(axes * width).ok_or_else(short)?;
                rest = after;
                let size = |bytes: &[u8]| {
                    let mut word = [0; 8];
                    word[..width].copy_from_slice(bytes);
                    usize::try_from(u64::from_le_bytes(word)).unwrap_or(usize::MAX)
                };
                sizes.chunks_exact(width).map(size).collect()
            }
        };
        let bytes = shape.iter().try_fold(dtype.bytes(), |bytes, &size| bytes.checked_mul(size));
        if bytes != Some(rest.len()) {
            return Err(format!("{} bytes do not match an array of {dtype} {shape:?}", rest.len()));
        }
        Ok(Self { dtype, shape, bytes: rest })
    }
}
