//! The header of a safetensors file: its tensors, and where they are.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::DType;

/// Maximum size of a header in bytes, as in the format's own reader.
pub(crate) const LONGEST_HEADER: u64 = 100_000_000;

/// The size of the header's length, which precedes the header.
pub(super) const LENGTH_BYTES: usize = 8;

/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 1 << 16;

/// A tensor that is completely inside of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Its data type, or the name of one that is not among torch's types of whole bytes.
    pub(crate) dtype: Result<DType, String>,
    pub(crate) shape: Vec<usize>,
    /// Its byte range in the file.
    pub(crate) place: Range<u64>,
}

/// The byte offset of an error in a header, and the reason.
pub(crate) type Refusal = (u64, String);

/// Returns the tensors, by name, of a file of `file_bytes` bytes that begins with the length of `header` and `header`.
///
/// Every byte after the header belongs to exactly one tensor: holes and overlaps are refused, as the format demands, so
/// that nothing can hide in a file.
pub(crate) fn parse(header: &[u8], file_bytes: u64) -> Result<Vec<Tensor>, Refusal> {
    let start = LENGTH_BYTES as u64;
    let text = std::str::from_utf8(header)
        .map_err(|error| (start + error.valid_up_to() as u64, "the header is not UTF-8 text".to_owned()))?;
    if !text.starts_with('{') {
        return Err((start, "not a safetensors file: the header does not begin with `{`".into()));
    }
    let Entries(entries) = serde_json::from_str(text).map_err(|error| {
        // The header usually is a single line.
        let column = if error.line() == 1 { error.column().saturating_sub(1) } else { 0 };
        (start + column as u64, format!("the header is invalid: {error}"))
    })?;
    let data = start + header.len() as u64;
    let tensors = entries.into_iter().map(|(name, entry)| tensor(name, entry, data, file_bytes));
    let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
    check_cover(&tensors, data, file_bytes)?;
    Ok(tensors)
}

/// Parses the tensor that an entry of the header describes.
fn tensor(name: String, entry: Entry, data: u64, file_bytes: u64) -> Result<Tensor, Refusal> {
    let refuse = |reason| Err((LENGTH_BYTES as u64, format!("tensor `{name}`: {reason}")));
    let [begin, end] = entry.data_offsets;
    let available = file_bytes - data;
    if begin > end {
        return refuse(format!("it starts at byte {begin} of the data, but ends before that, at byte {end}"));
    }
    if end > available {
        let reason =
            format!("it ends at byte {end} of the data, but the file has only {available}; it is truncated or damaged");
        return Err((file_bytes, format!("tensor `{name}`: {reason}")));
    }
    let Some((bits, dtype)) = data_type(&entry.dtype) else {
        return refuse(format!("the data type `{}` is unknown", entry.dtype));
    };
    // Axes of length 0 are skipped, as for arrays in memory: they must not hide an overflow of the others.
    let mut axes = entry.shape.iter().filter(|&&axis| axis > 0);
    let elements = axes.try_fold(1_u64, |elements, &axis| elements.checked_mul(axis));
    let bits = elements.and_then(|elements| elements.checked_mul(bits)).map(|bits| match entry.shape.contains(&0) {
        true => 0,
        false => bits,
    });
    if bits != Some((end - begin).saturating_mul(8)) {
        let needed =
            bits.map_or("more bytes than can be counted".to_owned(), |bits| format!("{} bytes", bits.div_ceil(8)));
        return refuse(format!("{} {:?} needs {needed}, but {} are declared", entry.dtype, entry.shape, end - begin));
    }
    let shape: Option<Vec<usize>> = entry.shape.iter().map(|&axis| usize::try_from(axis).ok()).collect();
    let Some(shape) = shape else {
        return refuse(format!("a tensor of shape {:?} is too large for any memory", entry.shape));
    };
    let dtype = dtype.ok_or_else(|| entry.dtype.clone());
    Ok(Tensor { dtype, shape, place: data + begin..data + end, name })
}

/// Fails if a byte of the data belongs to no tensor, or to several.
fn check_cover(tensors: &[Tensor], data: u64, file_bytes: u64) -> Result<(), Refusal> {
    let mut in_order: Vec<&Tensor> = tensors.iter().collect();
    in_order.sort_by_key(|tensor| (tensor.place.start, tensor.place.end));
    let mut end = data;
    let mut before: Option<&Tensor> = None;
    for tensor in in_order {
        let place = &tensor.place;
        if place.start != end {
            let what = if place.start > end { "a hole" } else { "an overlap" };
            let previous = before.map_or("the header".to_owned(), |before| format!("tensor `{}`", before.name));
            let reason = format!(
                "{what} of {} bytes between {previous} and tensor `{}`",
                place.start.abs_diff(end),
                tensor.name
            );
            return Err((place.start.min(end), reason));
        }
        end = place.end;
        before = Some(tensor);
    }
    if end != file_bytes {
        let reason = format!("{} bytes at the end of the file belong to no tensor; it is damaged", file_bytes - end);
        return Err((end, reason));
    }
    Ok(())
}

/// Returns the bits per element, and torch's data type if it has one of whole bytes. Returns `None` if the format has
/// no such type.
fn data_type(name: &str) -> Option<(u64, Option<DType>)> {
    let dtype = match name {
        "BOOL" => DType::Bool,
        "U8" => DType::UInt8,
        "I8" => DType::Int8,
        "U16" => DType::UInt16,
        "I16" => DType::Int16,
        "U32" => DType::UInt32,
        "I32" => DType::Int32,
        "U64" => DType::UInt64,
        "I64" => DType::Int64,
        "F16" => DType::Float16,
        "BF16" => DType::BFloat16,
        "F32" => DType::Float32,
        "F64" => DType::Float64,
        "C64" => DType::Complex64,
        "F8_E4M3" => DType::Float8E4M3Fn,
        "F8_E4M3FNUZ" => DType::Float8E4M3Fnuz,
        "F8_E5M2" => DType::Float8E5M2,
        "F8_E5M2FNUZ" => DType::Float8E5M2Fnuz,
        "F8_E8M0" => DType::Float8E8M0Fnu,
        "F4" => return Some((4, None)),
        "F6_E2M3" | "F6_E3M2" => return Some((6, None)),
        _ => return None,
    };
    Some((dtype.bytes() as u64 * 8, Some(dtype)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The entries of the header by name; names must be unique.
struct Entries(BTreeMap<String, Entry>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Entries;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let (mut entries, mut names) = (BTreeMap::new(), HashSet::new());
                while let Some(name) = map.next_key::<String>()? {
                    if name.len() > LONGEST_NAME {
                        return Err(A::Error::custom(format!("a name has {} bytes", name.len())));
                    }
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<BTreeMap<String, String>>()?;
                        continue;
                    }
                    let entry =
                        map.next_value::<Entry>().map_err(|error| A::Error::custom(format!("`{name}`: {error}")))?;
                    entries.insert(name, entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Names)
    }
}
