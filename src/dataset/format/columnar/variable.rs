//! [`VariableValues`]: arrays of values of different sizes, as bytes and offsets.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use super::Reason;
use super::nulls::union;

/// The starts of values, and the end of the last one, in elements.
#[derive(Debug, Clone)]
pub(super) enum Offsets {
    Small(ScalarBuffer<i32>),
    Large(ScalarBuffer<i64>),
}

impl Offsets {
    #[inline]
    pub(super) fn get(&self, row: usize) -> Range<usize> {
        match self {
            Self::Small(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Large(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        }
    }

    /// True if they are sorted, and within `0..=elements`.
    pub(super) fn are_within(&self, elements: usize) -> bool {
        fn rise<T: OffsetSizeTrait>(offsets: &[T], elements: usize) -> bool {
            let is_inside = |offset: &T| offset.to_usize().is_some_and(|offset| offset <= elements);
            offsets.is_sorted() && offsets.first().is_some_and(is_inside) && offsets.last().is_some_and(is_inside)
        }
        match self {
            Self::Small(offsets) => rise::<i32>(offsets, elements),
            Self::Large(offsets) => rise::<i64>(offsets, elements),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(offsets) => offsets.inner(),
            Self::Large(offsets) => offsets.inner(),
        }
    }
}

/// Values of different sizes.
#[derive(Debug, Clone)]
pub(super) struct VariableValues {
    offsets: Offsets,
    bytes: Buffer,
    /// Bytes per element.
    width: usize,
    /// By row, the index of its value: rows of a dictionary share values.
    keys: Option<Vec<u32>>,
    rows: usize,
}

impl VariableValues {
    /// Creates `rows` values, whose elements have `width` bytes.
    pub(super) fn new(offsets: Offsets, bytes: Buffer, width: usize, rows: usize) -> Result<Self, Reason> {
        let values = Self { offsets, bytes, width, keys: None, rows };
        let ends = match &values.offsets {
            Offsets::Small(offsets) => offsets.first().zip(offsets.last()).map(|(a, b)| (i64::from(*a), i64::from(*b))),
            Offsets::Large(offsets) => offsets.first().zip(offsets.last()).map(|(a, b)| (*a, *b)),
        };
        let elements = values.bytes.len().checked_div(width).unwrap_or(usize::MAX);
        match ends {
            Some((start, end)) if start >= 0 && usize::try_from(end).is_ok_and(|end| end <= elements) => Ok(values),
            _ => Err("its offsets point past its values".into()),
        }
    }

    /// Returns the byte strings of `array`, and which of them are null.
    pub(super) fn strings(array: &dyn Array) -> Result<(Self, Option<NullBuffer>), Reason> {
        let nulls = array.nulls().cloned();
        let (offsets, bytes) = match array.data_type() {
            DataType::Utf8 => parts(array.as_string::<i32>(), Offsets::Small),
            DataType::Binary => parts(array.as_binary::<i32>(), Offsets::Small),
            DataType::LargeUtf8 => parts(array.as_string::<i64>(), Offsets::Large),
            DataType::LargeBinary => parts(array.as_binary::<i64>(), Offsets::Large),
            DataType::Utf8View => gathered(array.as_byte_view::<StringViewType>()),
            DataType::BinaryView => gathered(array.as_byte_view::<BinaryViewType>()),
            DataType::Dictionary(..) => return Self::of_dictionary(array),
            other => return Err(format!("expected byte strings, got values of type {other}")),
        };
        Ok((Self::new(offsets, bytes, 1, array.len())?, nulls))
    }

    fn of_dictionary(array: &dyn Array) -> Result<(Self, Option<NullBuffer>), Reason> {
        let dictionary = array.as_any_dictionary();
        let (values, nulls) = Self::strings(&**dictionary.values())?;
        if values.keys.is_some() {
            return Err("dictionaries of dictionaries are not supported".into());
        }
        if values.rows == 0 {
            // All rows are null.
            let offsets = Offsets::Large(vec![0; array.len() + 1].into());
            return Ok((Self::new(offsets, values.bytes, 1, array.len())?, array.nulls().cloned()));
        }
        let keys = dictionary.normalized_keys();
        let of_values = nulls.map(|nulls| NullBuffer::from_iter(keys.iter().map(|&key| nulls.is_valid(key))));
        let nulls = union(of_values.as_ref(), array.nulls());
        let keys = keys.into_iter().map(|key| u32::try_from(key).map_err(|_| "too many values".to_owned()));
        Ok((Self { keys: Some(keys.collect::<Result<_, _>>()?), rows: array.len(), ..values }, nulls))
    }

    /// Creates byte strings of `width` bytes each.
    pub(super) fn of_fixed(bytes: Buffer, width: usize, rows: usize) -> Result<Self, Reason> {
        let offsets = (0..=rows).map(|row| (row * width) as i64).collect::<Vec<i64>>();
        Self::new(Offsets::Large(offsets.into()), bytes, 1, rows)
    }

    /// Returns a copy with nulls replaced by `fill`.
    pub(super) fn filled(&self, nulls: &NullBuffer, fill: &[u8]) -> Self {
        self.collected((0..self.rows).map(|row| if nulls.is_null(row) { fill } else { self.get(row) }))
    }

    /// Copies some of the values.
    pub(super) fn taken(&self, rows: &[usize]) -> Self {
        self.collected(rows.iter().map(|&row| self.get(row)))
    }

    /// Concatenates values of the same element width.
    fn collected<'a>(&self, values: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut bytes, mut offsets) = (Vec::<u8>::new(), vec![0]);
        let mut elements = 0;
        for value in values {
            bytes.extend(value);
            elements += value.len().checked_div(self.width).unwrap_or(0) as i64;
            offsets.push(elements);
        }
        let rows = offsets.len() - 1;
        let (offsets, bytes) = (Offsets::Large(offsets.into()), Buffer::from_vec(bytes));
        Self { offsets, bytes, width: self.width, keys: None, rows }
    }

    /// Calls `say` for each of `rows`, pairs of a number and a row, with the number and the row's length in elements.
    ///
    /// The kind of offsets is matched once, not for each row.
    #[inline]
    pub(super) fn lengths(&self, rows: impl Iterator<Item = (usize, usize)>, say: impl FnMut(usize, usize)) {
        match (&self.offsets, &self.keys) {
            (Offsets::Small(offsets), None) => lengths_of(offsets, rows, say),
            (Offsets::Large(offsets), None) => lengths_of(offsets, rows, say),
            (Offsets::Small(offsets), Some(keys)) => {
                lengths_of(offsets, rows.map(|(of, row)| (of, keys[row] as usize)), say)
            }
            (Offsets::Large(offsets), Some(keys)) => {
                lengths_of(offsets, rows.map(|(of, row)| (of, keys[row] as usize)), say)
            }
        }
    }

    /// Returns the range of row `row`, in elements.
    #[inline]
    pub(super) fn elements(&self, row: usize) -> Range<usize> {
        match &self.keys {
            Some(keys) => self.offsets.get(keys[row] as usize),
            None => self.offsets.get(row),
        }
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> &[u8] {
        let Range { start, end } = self.elements(row);
        &self.bytes[start * self.width..end * self.width]
    }

    /// Returns all bytes from the start of a row on, and how many of them belong to the row.
    #[inline]
    pub(super) fn starting_at(&self, row: usize) -> (&[u8], usize) {
        let Range { start, end } = self.elements(row);
        (&self.bytes[start * self.width..], (end - start) * self.width)
    }

    /// Returns the bytes of consecutive rows, or `None` if they are not contiguous.
    pub(super) fn run(&self, rows: Range<usize>) -> Option<&[u8]> {
        if self.keys.is_some() || rows.is_empty() {
            return None;
        }
        let (start, end) = (self.offsets.get(rows.start).start, self.offsets.get(rows.end - 1).end);
        Some(&self.bytes[start * self.width..end * self.width])
    }

    /// Returns the size of its buffers, as measured by `size`.
    pub(super) fn size(&self, size: impl Fn(&[u8]) -> usize) -> usize {
        size(self.offsets.bytes()) + size(&self.bytes) + self.keys.as_ref().map_or(0, |keys| keys.len() * 4)
    }
}

#[inline]
fn lengths_of<T: OffsetSizeTrait>(
    offsets: &[T],
    rows: impl Iterator<Item = (usize, usize)>,
    mut say: impl FnMut(usize, usize),
) {
    rows.for_each(|(of, row)| say(of, offsets[row + 1].as_usize().saturating_sub(offsets[row].as_usize())));
}

fn parts<T: arrow_array::types::ByteArrayType>(
    array: &arrow_array::GenericByteArray<T>,
    offsets: impl FnOnce(ScalarBuffer<T::Offset>) -> Offsets,
) -> (Offsets, Buffer) {
    (offsets(array.offsets().inner().clone()), array.values().clone())
}

/// Gathers the values of views into one buffer.
fn gathered<T: ByteViewType + ?Sized>(array: &arrow_array::GenericByteViewArray<T>) -> (Offsets, Buffer) {
    let (mut bytes, mut offsets) = (Vec::<u8>::new(), Vec::with_capacity(array.len() + 1));
    offsets.push(0);
    for row in 0..array.len() {
        if array.is_valid(row) {
            let value: &[u8] = array.value(row).as_ref();
            bytes.extend(value);
        }
        offsets.push(bytes.len() as i64);
    }
    (Offsets::Large(offsets.into()), Buffer::from_vec(bytes))
}
