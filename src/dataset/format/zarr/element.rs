//! Elements of arrays: their data types, their fill values, and their byte order.

use half::{bf16, f16};
use serde_json::Value;

use crate::DType;

/// Parses a data type of Zarr v2, as NumPy writes it (`"<f4"`). Returns the type, and true if it is big-endian.
pub fn numpy_type(name: &Value) -> Result<(DType, bool), String> {
    let Some(text) = name.as_str() else {
        return Err(format!("data type {name}: structured types are not supported"));
    };
    let (order, kind) = text.split_at_checked(1).unwrap_or_default();
    if kind == "O" {
        return Err("data type object: pickled and other Python objects are never loaded".into());
    }
    let dtype =
        DType::from_numpy(kind).ok_or_else(|| format!("data type {text:?}: only numbers and bools are supported"))?;
    match order {
        "<" | "|" => Ok((dtype, false)),
        ">" => Ok((dtype, true)),
        _ => Err(format!("data type {text:?}: expected a byte order `<`, `>` or `|`")),
    }
}

/// Parses a data type of Zarr v3 (`"float32"`).
pub(super) fn named_type(name: &Value) -> Result<DType, String> {
    let refused = || format!("data type {name}: only numbers and bools are supported");
    let text = name.as_str().ok_or_else(refused)?;
    match text {
        // Only these, because torch has other names, or other meanings, for the rest.
        "complex64" | "complex128" | "bool" | "bfloat16" => text.parse().map_err(|_| refused()),
        _ if text.starts_with("int") || text.starts_with("uint") || text.starts_with("float") => {
            let dtype: DType = text.parse().map_err(|_| refused())?;
            if text.starts_with("float8") { Err(refused()) } else { Ok(dtype) }
        }
        _ => Err(refused()),
    }
}

/// Parses a fill value into the bytes of an element, in native byte order. Null stands for zero.
pub(super) fn fill_bytes(value: &Value, dtype: DType) -> Result<Vec<u8>, String> {
    let refused = || format!("fill value: expected a value of {dtype}, got {value}");
    if value.is_null() {
        return Ok(vec![0; dtype.bytes()]);
    }
    if let Some(digits) = value.as_str().and_then(|text| text.strip_prefix("0x")) {
        let bits = u64::from_str_radix(digits, 16).map_err(|_| refused())?;
        let bytes = bits.to_le_bytes();
        let is_float = dtype.name().contains("float");
        if !is_float || bytes[dtype.bytes()..].iter().any(|&byte| byte > 0) {
            return Err(refused());
        }
        return Ok(native(bytes[..dtype.bytes()].to_vec(), dtype.bytes()));
    }
    macro_rules! integer {
        ($type:ty) => {{
            let number = integer_of(value).and_then(|number| <$type>::try_from(number).ok());
            number.ok_or_else(refused)?.to_ne_bytes().to_vec()
        }};
    }
    Ok(match dtype {
        DType::Bool => {
            let flag = value.as_bool().or_else(|| integer_of(value).map(|number| number != 0));
            vec![u8::from(flag.ok_or_else(refused)?)]
        }
        DType::Int8 => integer!(i8),
        DType::Int16 => integer!(i16),
        DType::Int32 => integer!(i32),
        DType::Int64 => integer!(i64),
        DType::UInt8 => integer!(u8),
        DType::UInt16 => integer!(u16),
        DType::UInt32 => integer!(u32),
        DType::UInt64 => integer!(u64),
        DType::Float32 => (float_of(value).ok_or_else(refused)? as f32).to_ne_bytes().to_vec(),
        DType::Float64 => float_of(value).ok_or_else(refused)?.to_ne_bytes().to_vec(),
        DType::Float16 => f16::from_f64(float_of(value).ok_or_else(refused)?).to_ne_bytes().to_vec(),
        DType::BFloat16 => bf16::from_f64(float_of(value).ok_or_else(refused)?).to_ne_bytes().to_vec(),
        DType::Complex64 | DType::Complex128 => {
            let part = if dtype == DType::Complex64 { DType::Float32 } else { DType::Float64 };
            match value.as_array().map(Vec::as_slice) {
                Some([real, imaginary]) => [fill_bytes(real, part)?, fill_bytes(imaginary, part)?].concat(),
                _ => [fill_bytes(value, part)?, vec![0; part.bytes()]].concat(),
            }
        }
        _ => return Err(refused()),
    })
}

/// Returns the integer that `value` stands for. Floats without a fraction count as integers.
pub(super) fn integer_of(value: &Value) -> Option<i128> {
    let exact = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    exact.or_else(|| value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i128))
}

/// Returns the float that `value` stands for.
pub(super) fn float_of(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(_) => None,
        None => value.as_f64(),
    }
}

/// Returns the size of the parts that are byte-swapped separately: a complex number has two.
fn ordered_bytes(dtype: DType) -> usize {
    if matches!(dtype, DType::Complex64 | DType::Complex128) { dtype.bytes() / 2 } else { dtype.bytes() }
}

/// Converts elements of `dtype` to native byte order.
pub(super) fn to_native(bytes: &mut [u8], dtype: DType, is_big: bool) {
    let size = ordered_bytes(dtype);
    if size > 1 && is_big != cfg!(target_endian = "big") {
        match size {
            2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|element| element.reverse()),
            4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|element| element.reverse()),
            _ => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|element| element.reverse()),
        }
    }
}

/// Converts one little-endian element of `size` bytes to native byte order.
fn native(mut bytes: Vec<u8>, size: usize) -> Vec<u8> {
    if size > 1 && cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}
