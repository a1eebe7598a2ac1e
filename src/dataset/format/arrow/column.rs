//! [`TableColumn`]: the values of one column of an Arrow table, in place.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;

use super::number::Number;
use super::table::{Step, TableValue};
use crate::{DType, Field};

/// A column, batch by batch.
pub(super) struct TableColumn {
    pub(super) form: Form,
    pub(super) pieces: Vec<Piece>,
}

/// What all batches of a column have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// Numbers of type `from`, in nested lists of `sizes`, the outermost first.
    Numbers { from: Number, sizes: Vec<usize>, items: Items },
    /// Bytes, with or without trailing zeros.
    Bytes { keeps_zeros: bool, items: Items },
    /// Lists of any length, of integers of type `from`, or of a one for each of them.
    Lists { from: Number, are_ones: bool },
}

/// The values of an array that belong to the column: one per row, from lists of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Items {
    /// The number of values per row in the array.
    per_row: usize,
    /// Which of them belongs to the column.
    item: usize,
}

impl Items {
    fn of_row(self, row: usize) -> usize {
        row * self.per_row + self.item
    }
}

impl Form {
    pub(crate) fn is_variable(&self) -> bool {
        matches!(self, Self::Bytes { .. } | Self::Lists { .. })
    }

    /// Returns the field called `name`.
    pub(crate) fn field(&self, name: &str) -> Field {
        match self {
            Self::Numbers { from, sizes, .. } => Field::new(name, from.in_batch(), sizes.clone()),
            Self::Bytes { .. } => Field::variable(name, DType::UInt8, []),
            Self::Lists { .. } => Field::variable(name, DType::Int64, []),
        }
    }
}

/// The values of a column in one batch. Offsets are checked when they are used.
pub(crate) enum Piece {
    /// Row after row, without gaps.
    Numbers(Buffer),
    /// The same, as bits.
    Bits(BooleanBuffer),
    Bytes {
        offsets: Offsets,
        bytes: Buffer,
    },
    /// The items of lists, and their offsets among the items.
    Lists {
        offsets: Offsets,
        items: Buffer,
    },
}

/// The start of each string or list, and the end of the last one.
pub(crate) enum Offsets {
    Narrow(Buffer),
    Wide(Buffer),
    /// All of one size.
    Equal(usize),
}

impl Offsets {
    fn pair(&self, row: usize) -> Option<(usize, usize)> {
        match self {
            Self::Narrow(buffer) => {
                let all = buffer.as_chunks::<4>().0;
                let at = |row: usize| usize::try_from(i32::from_ne_bytes(*all.get(row)?)).ok();
                Some((at(row)?, at(row + 1)?))
            }
            Self::Wide(buffer) => {
                let all = buffer.as_chunks::<8>().0;
                let at = |row: usize| usize::try_from(i64::from_ne_bytes(*all.get(row)?)).ok();
                Some((at(row)?, at(row + 1)?))
            }
            Self::Equal(size) => Some((row.checked_mul(*size)?, (row + 1).checked_mul(*size)?)),
        }
    }
}

impl Piece {
    /// Returns the column at `path` of `batch`, and its form. Returns `None` if it has nulls, lists of unequal lengths,
    /// or an unsupported type.
    pub(crate) fn of(batch: &RecordBatch, path: &[Step], value: TableValue) -> Option<(Form, Self)> {
        let [Step::Part(first), rest @ ..] = path else { return None };
        let mut array = batch.column_by_name(first)?.clone();
        let mut items = Items { per_row: 1, item: 0 };
        for step in rest {
            if array.null_count() > 0 {
                return None;
            }
            array = match step {
                Step::Part(name) => array.as_struct_opt()?.column_by_name(name)?.clone(),
                Step::Item(item) => {
                    let (inner, size) = lists(&array).filter(|(_, size)| item < size)?;
                    let per_row = items.per_row.checked_mul(size)?;
                    items = Items { per_row, item: items.item * size + item };
                    inner
                }
            };
        }
        match value {
            TableValue::Numbers => numbers(array, items),
            TableValue::Bytes => bytes(&array, true, items),
            TableValue::BytesWithoutZeros => bytes(&array, false, items),
            TableValue::Lists => rest.is_empty().then(|| integers(&array, false)).flatten(),
            TableValue::Ones => rest.is_empty().then(|| integers(&array, true)).flatten(),
        }
    }
}

fn numbers(mut array: ArrayRef, items: Items) -> Option<(Form, Piece)> {
    let mut sizes = Vec::new();
    loop {
        if array.null_count() > 0 {
            return None;
        }
        if !is_list(array.data_type()) {
            break;
        }
        let (inner, size) = lists(&array)?;
        // The element type of lists without an element is unknown.
        if size == 0 {
            return None;
        }
        sizes.push(size);
        array = inner;
    }
    let from = Number::of(array.data_type())?;
    let piece = match from {
        Number::Bool => Piece::Bits(array.as_boolean().values().clone()),
        _ => {
            let data = array.to_data();
            let width = from.bytes()?;
            let (start, bytes) = (data.offset().checked_mul(width)?, data.len().checked_mul(width)?);
            let buffer = data.buffers().first()?;
            if start.checked_add(bytes)? > buffer.len() {
                return None;
            }
            Piece::Numbers(buffer.slice_with_length(start, bytes))
        }
    };
    Some((Form::Numbers { from, sizes, items }, piece))
}

/// Returns lists of integers of any length, or of a one for each integer.
fn integers(array: &ArrayRef, are_ones: bool) -> Option<(Form, Piece)> {
    if array.null_count() > 0 {
        return None;
    }
    let (offsets, values) = match array.data_type() {
        DataType::List(_) => of_lists(array.as_list::<i32>()),
        DataType::LargeList(_) => of_lists(array.as_list::<i64>()),
        DataType::FixedSizeList(_, size) => {
            (Offsets::Equal(usize::try_from(*size).ok()?), array.as_fixed_size_list().values().clone())
        }
        _ => return None,
    };
    match numbers(values, Items { per_row: 1, item: 0 })? {
        (Form::Numbers { from: from @ Number::Integer(_), sizes, .. }, Piece::Numbers(items)) if sizes.is_empty() => {
            Some((Form::Lists { from, are_ones }, Piece::Lists { offsets, items }))
        }
        _ => None,
    }
}

fn of_lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> (Offsets, ArrayRef) {
    let offsets = lists.offsets().inner().inner().clone();
    let offsets = if O::IS_LARGE { Offsets::Wide(offsets) } else { Offsets::Narrow(offsets) };
    (offsets, lists.values().clone())
}

fn is_list(of: &DataType) -> bool {
    matches!(of, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// Returns the elements of lists, and the number per list. Returns `None` if that varies, or if these are not lists.
fn lists(array: &ArrayRef) -> Option<(ArrayRef, usize)> {
    match array.data_type() {
        DataType::List(_) => equal_lists(array.as_list::<i32>()),
        DataType::LargeList(_) => equal_lists(array.as_list::<i64>()),
        DataType::FixedSizeList(_, size) => {
            Some((array.as_fixed_size_list().values().clone(), usize::try_from(*size).ok()?))
        }
        _ => None,
    }
}

/// Returns the elements of lists, and the number per list. Returns `None` if that varies.
fn equal_lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Option<(ArrayRef, usize)> {
    let offsets = lists.value_offsets();
    let (first, last) = (offsets.first()?.as_usize(), offsets.last()?.as_usize());
    let size = if lists.is_empty() { 0 } else { offsets[1].as_usize().checked_sub(first)? };
    let are_equal = offsets.windows(2).all(|pair| pair[0].as_usize().checked_add(size) == Some(pair[1].as_usize()));
    let is_inside = first <= last && last <= lists.values().len();
    (are_equal && is_inside).then(|| (lists.values().slice(first, last - first), size))
}

fn bytes(array: &ArrayRef, keeps_zeros: bool, items: Items) -> Option<(Form, Piece)> {
    if array.null_count() > 0 {
        return None;
    }
    let (offsets, bytes) = match array.data_type() {
        DataType::Utf8 => of_bytes(array.as_string::<i32>()),
        DataType::Binary => of_bytes(array.as_binary::<i32>()),
        DataType::LargeUtf8 => of_bytes(array.as_string::<i64>()),
        DataType::LargeBinary => of_bytes(array.as_binary::<i64>()),
        DataType::FixedSizeBinary(size) => {
            let array = array.as_fixed_size_binary();
            let size = usize::try_from(*size).ok()?;
            (Offsets::Equal(size), array.values().clone())
        }
        _ => return None,
    };
    Some((Form::Bytes { keeps_zeros, items }, Piece::Bytes { offsets, bytes }))
}

fn of_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> (Offsets, Buffer) {
    let offsets = array.offsets().inner().inner().clone();
    let offsets = if T::Offset::IS_LARGE { Offsets::Wide(offsets) } else { Offsets::Narrow(offsets) };
    (offsets, array.values().clone())
}

impl TableColumn {
    /// Returns the length of the row at `place` (batch, row) of a variable column, or `None` for invalid offsets.
    pub(super) fn elements(&self, place: (usize, usize)) -> Option<usize> {
        match &self.form {
            Form::Numbers { .. } => None,
            Form::Bytes { .. } => self.bytes(place).map(<[u8]>::len),
            Form::Lists { from, .. } => Some(self.items(*from, place)?.len() / from.bytes()?),
        }
    }

    /// Writes the row at `place` of a variable column to `room`. Returns `None` if its size differs, because other code
    /// has written to the table since the size was read.
    pub(super) fn copy(&self, place: (usize, usize), room: &mut [u8]) -> Option<()> {
        match &self.form {
            Form::Numbers { .. } => return None,
            Form::Bytes { .. } => {
                let bytes = self.bytes(place).filter(|bytes| bytes.len() == room.len())?;
                room.copy_from_slice(bytes);
            }
            Form::Lists { from, are_ones } => {
                let items = self.items(*from, place)?;
                let size = (items.len() / from.bytes()?).checked_mul(size_of::<i64>())?;
                if size != room.len() {
                    return None;
                }
                match are_ones {
                    true => room.as_chunks_mut().0.fill(1_i64.to_ne_bytes()),
                    false => from.convert(items, room),
                }
            }
        }
        Some(())
    }

    /// Returns the bytes of the items of the list at `place`.
    fn items(&self, from: Number, place: (usize, usize)) -> Option<&[u8]> {
        let Piece::Lists { offsets, items } = &self.pieces[place.0] else { return None };
        let (start, end) = offsets.pair(place.1)?;
        let bytes = from.bytes()?;
        items.get(start.checked_mul(bytes)?..end.checked_mul(bytes)?)
    }

    /// Returns the bytes of the row at `place` (batch, row). Returns `None` for columns of numbers and invalid offsets.
    fn bytes(&self, place: (usize, usize)) -> Option<&[u8]> {
        let Form::Bytes { keeps_zeros, items } = self.form else { return None };
        let Piece::Bytes { offsets, bytes } = &self.pieces[place.0] else { return None };
        let (start, end) = offsets.pair(items.of_row(place.1))?;
        let mut bytes = bytes.get(start..end)?;
        while let (false, [rest @ .., 0]) = (keeps_zeros, bytes) {
            bytes = rest;
        }
        Some(bytes)
    }

    /// Writes the numbers of the rows at `places` to `into`, row after row.
    pub(super) fn gather(&self, places: &[(usize, usize)], into: &mut [u8]) {
        let Form::Numbers { from, sizes, items } = &self.form else { panic!("bytes have no fixed size") };
        let elements: usize = sizes.iter().product();
        let room = elements * from.in_batch().bytes();
        let (mut rest, mut into) = (places, into);
        while let Some(&(batch, row)) = rest.first() {
            // Consecutive rows are converted together.
            let follow = rest.iter().zip(row..).take_while(|&(&place, row)| place == (batch, row));
            let run = if items.per_row == 1 { follow.count() } else { 1 };
            let row = items.of_row(row);
            let (room, after) = into.split_at_mut(run * room);
            match &self.pieces[batch] {
                Piece::Numbers(values) => {
                    let bytes = elements * from.bytes().expect("bits are in another piece");
                    from.convert(&values[row * bytes..(row + run) * bytes], room);
                }
                Piece::Bits(values) => {
                    for (place, byte) in room.iter_mut().enumerate() {
                        *byte = u8::from(values.value(row * elements + place));
                    }
                }
                Piece::Bytes { .. } | Piece::Lists { .. } => unreachable!("a column of numbers has no such piece"),
            }
            into = after;
            rest = &rest[run..];
        }
    }
}
