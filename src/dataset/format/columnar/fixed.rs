//! [`FixedValues`]: arrays whose values all have one size, as bytes.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;

use super::leaf::LeafNulls;
use super::nulls::{null_rows, of_rows, overwritten, union};
use super::rule::{Conversion, Rule, rule_of};
use super::{Decimals, Reason};

/// Values of one size, concatenated.
pub(super) struct FixedValues {
    pub(super) bytes: Buffer,
    /// Bytes per value.
    pub(super) width: usize,
    /// Which values are null.
    pub(super) nulls: Option<NullBuffer>,
    /// Which values contain a null.
    pub(super) broken: Option<NullBuffer>,
}

impl FixedValues {
    /// Converts `array`. A fill value replaces nulls inside of values; nulls of whole values are left to the caller.
    pub(super) fn of(array: &dyn Array, decimals: Decimals, rule: &LeafNulls) -> Result<Self, Reason> {
        let whole = |bytes, width| Self { bytes, width, nulls: array.nulls().cloned(), broken: None };
        match array.data_type() {
            DataType::FixedSizeList(_, len) => {
                let list = array.as_fixed_size_list();
                let len = usize::try_from(*len).map_err(|_| "a list has a negative length".to_owned())?;
                let items = Self::of(&**list.values(), decimals, rule)?;
                let mut bytes = items.bytes;
                let mut nulls = items.nulls;
                if let (LeafNulls::Fill(fill), Some(null)) = (rule, &nulls) {
                    bytes = overwritten(&bytes, items.width, null, fill);
                    nulls = None;
                }
                let broken = union(nulls.as_ref(), items.broken.as_ref());
                let broken = of_rows(broken.as_ref(), len, list.len());
                Ok(Self { bytes, width: items.width * len, nulls: list.nulls().cloned(), broken })
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = Self::of(&**dictionary.values(), decimals, rule)?;
                if dictionary.values().is_empty() {
                    let bytes = Buffer::from_vec(vec![0_u8; values.width * array.len()]);
                    return Ok(Self { bytes, width: values.width, nulls: array.nulls().cloned(), broken: None });
                }
                let keys = dictionary.normalized_keys();
                let mut bytes: Vec<u8> = Vec::with_capacity(keys.len() * values.width);
                for &key in &keys {
                    bytes.extend(&values.bytes[key * values.width..(key + 1) * values.width]);
                }
                let taken = |nulls: Option<NullBuffer>| {
                    nulls.map(|nulls| NullBuffer::from_iter(keys.iter().map(|&key| nulls.is_valid(key))))
                };
                let nulls = union(taken(values.nulls).as_ref(), array.nulls());
                Ok(Self { bytes: Buffer::from_vec(bytes), width: values.width, nulls, broken: taken(values.broken) })
            }
            DataType::FixedSizeBinary(width) => {
                let width =
                    usize::try_from(*width).map_err(|_| "the byte strings have a negative length".to_owned())?;
                Ok(whole(values_buffer(array, width)?, width))
            }
            DataType::Boolean => {
                let bits = array.as_boolean().values();
                Ok(whole(Buffer::from_vec(bits.iter().map(u8::from).collect::<Vec<u8>>()), 1))
            }
            of => {
                let Rule::Fixed { conversion, dtype, .. } = rule_of(of, decimals)?.rule else {
                    return Err(format!("expected values of a fixed size, got type {of}"));
                };
                let bytes = match conversion {
                    Conversion::Plain => values_buffer(array, dtype.bytes())?,
                    Conversion::Widen => {
                        let narrow = values_buffer(array, size_of::<i32>())?;
                        let (numbers, _) = narrow.as_chunks();
                        collect(numbers.iter().map(|number| i64::from(i32::from_ne_bytes(*number))))
                    }
                    Conversion::Days => {
                        const DAY: i64 = 24 * 60 * 60 * 1000;
                        collect(array.as_primitive::<Date64Type>().values().iter().map(|number| number.div_euclid(DAY)))
                    }
                    Conversion::Float(_) | Conversion::Unscaled => {
                        return decimal(array, conversion).map(|bytes| whole(bytes, 8));
                    }
                    Conversion::Bits => return Err("expected whole bytes, got bits".into()),
                };
                Ok(whole(bytes, dtype.bytes()))
            }
        }
    }
}

/// Returns a byte for each number in the values of `array`: 0 if it, or anything that contains it, is null, else 1.
pub(super) fn presence(array: &dyn Array) -> Vec<u8> {
    let mut present = match array.data_type() {
        DataType::FixedSizeList(_, len) => {
            let list = array.as_fixed_size_list();
            let inner = presence(&**list.values());
            let per_item = inner.len().checked_div(list.values().len()).unwrap_or(0);
            inner[..list.len() * usize::try_from(*len).unwrap_or(0) * per_item].to_vec()
        }
        DataType::Dictionary(..) if array.as_any_dictionary().values().is_empty() => return vec![0; array.len()],
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let inner = presence(&**dictionary.values());
            let per_value = inner.len() / dictionary.values().len();
            let keys = dictionary.normalized_keys().into_iter();
            keys.flat_map(|key| &inner[key * per_value..(key + 1) * per_value]).copied().collect()
        }
        _ => vec![1; array.len()],
    };
    if let Some(nulls) = array.nulls() {
        blank(&mut present, nulls);
    }
    present
}

/// Clears the bytes of rows that are null.
pub(super) fn blank(present: &mut [u8], nulls: &NullBuffer) {
    let per_row = present.len().checked_div(nulls.len()).unwrap_or(0);
    null_rows(nulls).for_each(|row| present[row * per_row..(row + 1) * per_row].fill(0));
}

/// Returns the values of an array whose elements are contiguous, `width` bytes each.
fn values_buffer(array: &dyn Array, width: usize) -> Result<Buffer, Reason> {
    let data = array.to_data();
    let buffer = data.buffers().first().ok_or("an array has no values")?;
    let (start, len) = (data.offset() * width, data.len() * width);
    match start.checked_add(len).is_some_and(|end| end <= buffer.len()) {
        true => Ok(buffer.slice_with_length(start, len)),
        false => Err("an array has fewer values than it declares".into()),
    }
}

fn collect(numbers: impl Iterator<Item = i64>) -> Buffer {
    Buffer::from_vec(numbers.collect::<Vec<i64>>())
}

fn decimal(array: &dyn Array, conversion: Conversion) -> Result<Buffer, Reason> {
    match array.data_type() {
        DataType::Decimal32(..) => decimals(array.as_primitive::<Decimal32Type>(), conversion),
        DataType::Decimal64(..) => decimals(array.as_primitive::<Decimal64Type>(), conversion),
        DataType::Decimal128(..) => decimals(array.as_primitive::<Decimal128Type>(), conversion),
        DataType::Decimal256(..) => decimals(array.as_primitive::<Decimal256Type>(), conversion),
        other => Err(format!("expected decimals, got values of type {other}")),
    }
}

/// Converts decimals to floats or integers. Nulls become 0.
fn decimals<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, conversion: Conversion) -> Result<Buffer, Reason>
where
    T::Native: std::fmt::Display,
{
    let texts = (0..array.len()).map(|row| match array.is_null(row) {
        true => "0".to_owned(),
        false => array.value(row).to_string(),
    });
    let small = |text: &str| text.parse::<i64>().ok();
    match conversion {
        Conversion::Float(scale) => {
            let float = |digits: String| match small(&digits) {
                // Both numbers are exact, so that there is only one rounding.
                Some(number) if number.unsigned_abs() < 1 << 53 && (0..=22).contains(&scale) => {
                    number as f64 / 10_f64.powi(i32::from(scale))
                }
                _ => format!("{digits}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN),
            };
            Ok(Buffer::from_vec(texts.map(float).collect::<Vec<f64>>()))
        }
        _ => {
            let whole = |digits: String| {
                small(&digits)
                    .ok_or_else(|| format!("the decimal {digits} (without its point) does not fit into int64"))
            };
            Ok(Buffer::from_vec(texts.map(whole).collect::<Result<Vec<i64>, Reason>>()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::FixedSizeListArray;
    use arrow_array::types::Int64Type;

    use super::*;

    #[test]
    fn filtering_a_null_row_removes_only_its_own_values() {
        let rows = [Some([Some(1), Some(2)]), None, Some([Some(3), None]), Some([Some(4), Some(5)])];
        let lists = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(rows, 2);
        assert_eq!(presence(&lists), [1, 1, 0, 0, 1, 0, 1, 1]);
        // The same values, in two rows of two lists each.
        let field = Arc::new(arrow_schema::Field::new_list_field(lists.data_type().clone(), true));
        let nested = FixedSizeListArray::new(field, 2, Arc::new(lists), None);
        assert_eq!(presence(&nested), [1, 1, 0, 0, 1, 0, 1, 1]);
        assert_eq!(presence(&nested.slice(1, 1)), [1, 0, 1, 1]);
    }
}
