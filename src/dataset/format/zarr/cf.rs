//! [`Decoding`]: decodes stored numbers by the conventions for climate and forecast data (CF).
//!
//! Source: `xarray.coding.variables`; data types and order of operations follow it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::{float_of, integer_of};
use super::metadata::{ArrayMetadata, Version};
use crate::DType;

/// Numbers in these units may be time spans.
const TIME_UNITS: [&str; 7] = ["days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"];

/// How stored elements are decoded into values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decoding {
    /// The type of stored elements, with the signedness that `_Unsigned` declares.
    stored: DType,
    /// The type of decoded values.
    pub(super) dtype: DType,
    /// Stored elements with these values are missing.
    masked: Vec<f64>,
    scale: Option<Factor>,
    offset: Option<Factor>,
}

/// A factor or summand (`scale_factor`, `add_offset`).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Factor {
    value: f64,
    /// Float32, Float64, or Int64.
    dtype: DType,
}

impl Decoding {
    /// Returns the decoding that leaves the elements of `array` as they are stored.
    pub(super) fn none(array: &ArrayMetadata) -> Self {
        Self { stored: array.dtype, dtype: array.dtype, masked: Vec::new(), scale: None, offset: None }
    }

    /// Returns the decoding that the attributes of `array` describe.
    ///
    /// # Errors
    /// Attributes are unsupported or invalid.
    pub(super) fn of(array: &ArrayMetadata) -> Result<Self, String> {
        let attributes = &array.attributes;
        refuse_other(attributes)?;
        let fill = match (array.version, &array.fill_value) {
            // As in xarray: the fill value of a v2 array marks missing values.
            (Version::V2, fill) if !fill.is_null() => Some(number(array.dtype, fill, "fill_value")?),
            _ => match attributes.get("_FillValue") {
                Some(fill) => Some(attribute_fill(array, fill)?),
                None => None,
            },
        };
        let missing = attributes.get("missing_value").map(|value| numbers_of(array.dtype, value)).transpose()?;
        let (stored, unsigned_fill) = with_sign(array.dtype, attributes, fill);
        let is_integer = integer_bytes(stored).is_some();
        let values =
            |found: Option<Vec<f64>>| found.filter(|all| !is_integer || all.iter().any(|value| !value.is_nan()));
        let found = [values(missing), values(unsigned_fill.map(|fill| vec![fill]))];
        let is_declared = found.iter().any(Option::is_some);
        let bits: BTreeSet<u64> =
            found.into_iter().flatten().flatten().filter(|value| !value.is_nan()).map(f64::to_bits).collect();
        let masked: Vec<f64> = bits.into_iter().map(f64::from_bits).collect();
        let (scale, offset) = (factor(array, "scale_factor")?, factor(array, "add_offset")?);
        let is_packed = scale.is_some() || offset.is_some();
        let dtype = if is_packed && (!masked.is_empty() || !is_declared) {
            unpacked(stored, scale, offset)?
        } else if masked.is_empty() {
            stored
        } else {
            promoted(stored).ok_or_else(|| format!("{stored} has no value that can mark missing values"))?
        };
        let units = attributes.get("units").and_then(Value::as_str).unwrap_or_default();
        if TIME_UNITS.contains(&units) && (is_packed || !masked.is_empty()) {
            return Err(format!("time spans (in {units}) can't be masked or scaled"));
        }
        if (dtype != stored || is_packed || !masked.is_empty()) && !is_read(stored) {
            return Err(format!("values of {stored} can't be masked or scaled"));
        }
        // NumPy converts Python floats to the array's precision; attributes of other formats have their own precision.
        let is_rounded = dtype == DType::Float32 && array.version != Version::Other;
        let rounded = |factor: Factor| {
            let value = if is_rounded { f64::from(factor.value as f32) } else { factor.value };
            Factor { value, ..factor }
        };
        Ok(Self { stored, dtype, masked, scale: scale.map(rounded), offset: offset.map(rounded) })
    }

    /// Decodes `stored` elements, in native byte order.
    pub(super) fn apply(&self, stored: Vec<u8>) -> Vec<u8> {
        if self.masked.is_empty() && self.scale.is_none() && self.offset.is_none() {
            return stored;
        }
        macro_rules! decoded {
            ($($dtype:ident => $type:ty),*) => {
                match self.stored {
                    $(DType::$dtype => {
                        let elements = stored.as_chunks::<{ size_of::<$type>() }>().0.iter();
                        let elements = elements.map(|element| <$type>::from_ne_bytes(*element));
                        match self.dtype {
                            DType::Float32 => self.singles(elements.map(|element| element as f32)),
                            _ => self.doubles(elements.map(|element| element as f64)),
                        }
                    })*
                    _ => stored,
                }
            };
        }
        decoded!(
            Int8 => i8, Int16 => i16, Int32 => i32, Int64 => i64, UInt8 => u8, UInt16 => u16, UInt32 => u32,
            UInt64 => u64, Float32 => f32, Float64 => f64
        )
    }

    fn doubles(&self, elements: impl ExactSizeIterator<Item = f64>) -> Vec<u8> {
        let mut values = Vec::with_capacity(elements.len() * 8);
        for element in elements {
            let mut value = if self.masked.contains(&element) { f64::NAN } else { element };
            value = self.scale.map_or(value, |scale| value * scale.value);
            value = self.offset.map_or(value, |offset| value + offset.value);
            values.extend_from_slice(&value.to_ne_bytes());
        }
        values
    }

    fn singles(&self, elements: impl ExactSizeIterator<Item = f32>) -> Vec<u8> {
        let mut values = Vec::with_capacity(elements.len() * 4);
        for element in elements {
            let mut value = if self.masked.contains(&f64::from(element)) { f32::NAN } else { element };
            // Computed in double precision, which rounds to the same f32 when both operands are f32.
            value = self.scale.map_or(value, |scale| (f64::from(value) * scale.value) as f32);
            value = self.offset.map_or(value, |offset| (f64::from(value) + offset.value) as f32);
            values.extend_from_slice(&value.to_ne_bytes());
        }
        values
    }
}

/// Refuses attributes that turn numbers into times, time spans, or booleans.
fn refuse_other(attributes: &Map<String, Value>) -> Result<(), String> {
    let text = |name: &str| attributes.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("units").contains("since") {
        return Err(format!("times ({:?}) are not supported", text("units")));
    }
    if text("dtype") == "bool" || text("dtype").starts_with("timedelta64") {
        return Err(format!("numbers that encode {} are not supported", text("dtype")));
    }
    Ok(())
}

/// Returns the data type that `stored` is promoted to when some values are missing.
fn promoted(stored: DType) -> Option<DType> {
    match (integer_bytes(stored), stored) {
        (Some(1 | 2), _) => Some(DType::Float32),
        (Some(_), _) => Some(DType::Float64),
        (None, DType::Float32 | DType::Float64) => Some(stored),
        _ => None,
    }
}

fn integer_bytes(dtype: DType) -> Option<usize> {
    (dtype.name().starts_with("int") || dtype.name().starts_with("uint")).then(|| dtype.bytes())
}

fn is_read(dtype: DType) -> bool {
    integer_bytes(dtype).is_some() || matches!(dtype, DType::Float32 | DType::Float64)
}

/// Returns the data type with the signedness that `_Unsigned` declares, and the fill value converted to it.
fn with_sign(dtype: DType, attributes: &Map<String, Value>, fill: Option<f64>) -> (DType, Option<f64>) {
    let signed = [DType::Int8, DType::Int16, DType::Int32, DType::Int64];
    let unsigned = [DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64];
    let (from, to) = match attributes.get("_Unsigned").and_then(Value::as_str) {
        Some("true") => (signed, unsigned),
        Some("false") => (unsigned, signed),
        _ => return (dtype, fill),
    };
    let Some(place) = from.iter().position(|&other| other == dtype) else { return (dtype, fill) };
    let bits = 8 * dtype.bytes() as u32;
    let span = 2_f64.powi(bits as i32);
    let fill = fill.map(|fill| match to == unsigned {
        true if fill < 0.0 => fill + span,
        false if fill >= span / 2.0 => fill - span,
        _ => fill,
    });
    (to[place], fill)
}

/// Reads `_FillValue`, which xarray writes in base64 for floats in Zarr v3.
fn attribute_fill(array: &ArrayMetadata, fill: &Value) -> Result<f64, String> {
    let refused = || format!("_FillValue: expected a value of {}, got {fill}", array.dtype);
    match (array.version, fill.as_str()) {
        (Version::V3, Some(text)) if array.dtype.name().starts_with("float") => {
            unbase64(text).and_then(|bytes| Some(f64::from_le_bytes(*bytes.first_chunk::<8>()?))).ok_or_else(refused)
        }
        _ => number(array.dtype, fill, "_FillValue"),
    }
}

fn numbers_of(dtype: DType, value: &Value) -> Result<Vec<f64>, String> {
    match value.as_array() {
        Some(values) => values.iter().map(|value| number(dtype, value, "missing_value")).collect(),
        None => Ok(vec![number(dtype, value, "missing_value")?]),
    }
}

/// Reads a number that elements of `dtype` are compared with.
fn number(dtype: DType, value: &Value, name: &str) -> Result<f64, String> {
    let found = match (value, integer_of(value)) {
        (Value::Bool(flag), _) => Some(f64::from(u8::from(*flag))),
        (_, Some(integer)) if integer_bytes(dtype).is_some() => Some(integer as f64),
        _ => float_of(value),
    };
    let found = found.ok_or_else(|| format!("{name}: expected a value of {dtype}, got {value}"))?;
    // The array's fill value has the array's data type; an attribute is compared at full precision.
    Ok(if name == "fill_value" && dtype == DType::Float32 { f64::from(found as f32) } else { found })
}

/// Reads a factor or an offset.
fn factor(array: &ArrayMetadata, name: &str) -> Result<Option<Factor>, String> {
    let Some(value) = array.attributes.get(name) else { return Ok(None) };
    let found = value.as_f64().ok_or_else(|| format!("{name}: expected a number, got {value}"))?;
    let dtype = match value.is_f64() {
        true if array.single_attributes.iter().any(|single| single == name) => DType::Float32,
        true => DType::Float64,
        false => DType::Int64,
    };
    Ok(Some(Factor { value: found, dtype }))
}

/// Returns the data type that scaled elements of `stored` get.
fn unpacked(stored: DType, scale: Option<Factor>, offset: Option<Factor>) -> Result<DType, String> {
    let is_single = |factor: Option<Factor>| factor.is_some_and(|factor| factor.dtype == DType::Float32);
    match (scale, offset) {
        (Some(_), Some(_)) if is_single(scale) && is_single(offset) && integer_bytes(stored) != Some(4) => {
            Ok(DType::Float32)
        }
        (_, Some(_)) => Ok(DType::Float64),
        (Some(Factor { dtype: DType::Int64, .. }), None) => {
            Err("scale_factor: expected a float, got an integer, which would make the values integers".into())
        }
        (_, None) => Ok(if is_single(scale) { DType::Float32 } else { DType::Float64 }),
    }
}

pub(super) fn unbase64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}
