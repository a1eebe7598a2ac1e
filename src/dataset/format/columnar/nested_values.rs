//! [`NestedValues`]: arrays of lists and structs, and the encoding of their rows.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;

use super::fixed::FixedValues;
use super::leaf::LeafNulls;
use super::nested::{LevelContents, Nested};
use super::nested_room::NestedRoom;
use super::nulls::union;
use super::rule::{Rule, rule_of};
use super::variable::{Offsets, VariableValues};
use super::{Decimals, Reason};

/// Maximum bytes of the encoded values of one record batch.
const LARGEST: usize = 4 << 30;

/// The encoded values of a nested column, one per row.
pub(super) struct NestedBlock {
    pub(super) values: VariableValues,
    /// Which rows are null although nulls are refused.
    pub(super) nulls: Option<NullBuffer>,
    /// Which rows contain a null although nulls are refused.
    pub(super) broken: Option<NullBuffer>,
}

/// The rows of an array at one level of a nested column.
struct NestedValues<'a> {
    nested: &'a Nested,
    rows: Rows<'a>,
    nulls: Option<NullBuffer>,
}

enum Rows<'a> {
    Fixed { bytes: Buffer, width: usize },
    Strings(VariableValues),
    Lists { offsets: Offsets, items: Box<NestedValues<'a>> },
    Arrays { len: usize, items: Box<NestedValues<'a>> },
    Dicts(Vec<NestedValues<'a>>),
}

impl NestedBlock {
    /// Encodes the rows of `array` as `nested` says; they are null where `outer` is.
    pub(super) fn new(
        nested: &Nested,
        array: &ArrayRef,
        outer: Option<&NullBuffer>,
        decimals: Decimals,
    ) -> Result<Self, Reason> {
        let mut values = NestedValues::new(nested, array, decimals)?;
        values.nulls = union(outer, values.nulls.as_ref());
        let rows = array.len();
        let (mut room, mut ends) = (NestedRoom::new(LARGEST), Vec::with_capacity(rows + 1));
        ends.push(0);
        let (mut missing, mut broken) = (Vec::new(), Vec::new());
        for row in 0..rows {
            room.is_broken = false;
            values.put(row..row + 1, &mut room)?;
            ends.push(room.bytes.len() as i64);
            if room.is_broken {
                let is_null = nested.nulls == LeafNulls::Refuse && values.is_null(row);
                if is_null {
                    missing.push(row)
                } else {
                    broken.push(row)
                };
            }
        }
        let buffer = |absent: &[usize]| {
            let is_valid = |row: usize| absent.binary_search(&row).is_err();
            (!absent.is_empty()).then(|| NullBuffer::from_iter((0..rows).map(is_valid)))
        };
        let values = VariableValues::new(Offsets::Large(ends.into()), Buffer::from_vec(room.bytes), 1, rows)?;
        Ok(Self { values, nulls: buffer(&missing), broken: buffer(&broken) })
    }
}

impl<'a> NestedValues<'a> {
    fn new(nested: &'a Nested, array: &ArrayRef, decimals: Decimals) -> Result<Self, Reason> {
        let found = array.data_type();
        let unexpected = || format!("expected values of type {}, got {found}", nested.as_type());
        let (rows, nulls) = match (&nested.contents, found) {
            (LevelContents::List(item), DataType::FixedSizeList(_, len)) => {
                let len = usize::try_from(*len).map_err(|_| "a list has a negative length".to_owned())?;
                let list = array.as_fixed_size_list();
                let items = Self::new(item, list.values(), decimals)?;
                (Rows::Arrays { len, items: Box::new(items) }, list.nulls().cloned())
            }
            (LevelContents::List(item), DataType::List(_)) => {
                let list = array.as_list::<i32>();
                let offsets = Offsets::Small(list.offsets().inner().clone());
                (Self::lists(item, offsets, list.values(), decimals)?, list.nulls().cloned())
            }
            (LevelContents::List(item), DataType::LargeList(_)) => {
                let list = array.as_list::<i64>();
                let offsets = Offsets::Large(list.offsets().inner().clone());
                (Self::lists(item, offsets, list.values(), decimals)?, list.nulls().cloned())
            }
            (LevelContents::Dict(parts), DataType::Struct(_)) => {
                let array = array.as_struct();
                let part = |(name, part): &'a (String, Nested)| {
                    let child = array.column_by_name(name).ok_or_else(|| format!("the struct has no `{name}`"))?;
                    Self::new(part, child, decimals)
                };
                (Rows::Dicts(parts.iter().map(part).collect::<Result<_, Reason>>()?), array.nulls().cloned())
            }
            (LevelContents::Number(dtype), found) => {
                let fits = |rule: Rule| match rule {
                    Rule::Fixed { dtype: found, shape, .. } => found == *dtype && shape.is_empty(),
                    _ => false,
                };
                if !rule_of(found, decimals).is_ok_and(|meaning| fits(meaning.rule)) {
                    return Err(unexpected());
                }
                let FixedValues { bytes, width, nulls, .. } = FixedValues::of(&**array, decimals, &LeafNulls::Refuse)?;
                (Rows::Fixed { bytes, width }, nulls)
            }
            (LevelContents::Text | LevelContents::Bytes, DataType::FixedSizeBinary(_)) => {
                let FixedValues { bytes, width, nulls, .. } = FixedValues::of(&**array, decimals, &LeafNulls::Refuse)?;
                (Rows::Strings(VariableValues::of_fixed(bytes, width, array.len())?), nulls)
            }
            (LevelContents::Text | LevelContents::Bytes, _) => {
                let (values, nulls) = VariableValues::strings(&**array)?;
                (Rows::Strings(values), nulls)
            }
            _ => return Err(unexpected()),
        };
        Ok(Self { nested, rows, nulls: union(nulls.as_ref(), None) })
    }

    fn lists(item: &'a Nested, offsets: Offsets, items: &ArrayRef, decimals: Decimals) -> Result<Rows<'a>, Reason> {
        // Lists must not share items, so that all lists together are not larger than the items.
        if !offsets.are_within(items.len()) {
            return Err("its offsets point past its values".into());
        }
        Ok(Rows::Lists { offsets, items: Box::new(Self::new(item, items, decimals)?) })
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the sequence of `rows` to `room`.
    fn put(&self, rows: Range<usize>, room: &mut NestedRoom) -> Result<(), Reason> {
        let has_nulls = self.nulls.is_some() && rows.clone().any(|row| self.is_null(row));
        if !has_nulls {
            room.put(&[0])?;
            return match &self.rows {
                Rows::Fixed { bytes, width } => room.put(&bytes[rows.start * width..rows.end * width]),
                _ => rows.into_iter().try_for_each(|row| self.put_row(row, room)),
            };
        }
        if let LeafNulls::Fill(fill) = &self.nested.nulls {
            room.put(&[0])?;
            let mut each = rows.into_iter();
            return each.try_for_each(|row| match self.is_null(row) {
                true => put_fill(self.nested, fill, room),
                false => self.put_row(row, room),
            });
        }
        room.is_broken |= self.nested.nulls == LeafNulls::Refuse;
        room.put(&[1])?;
        rows.clone().try_for_each(|row| room.put(&[u8::from(!self.is_null(row))]))?;
        rows.into_iter().filter(|&row| !self.is_null(row)).try_for_each(|row| self.put_row(row, room))
    }

    /// Appends a row that is not null.
    fn put_row(&self, row: usize, room: &mut NestedRoom) -> Result<(), Reason> {
        match &self.rows {
            Rows::Fixed { bytes, width } => room.put(&bytes[row * width..(row + 1) * width]),
            Rows::Strings(values) => room.put_string(values.get(row)),
            Rows::Lists { offsets, items } => {
                let rows = offsets.get(row);
                room.put_len(rows.len())?;
                items.put(rows, room)
            }
            Rows::Arrays { len, items } => {
                room.put_len(*len)?;
                items.put(row * len..(row + 1) * len, room)
            }
            Rows::Dicts(parts) => parts.iter().try_for_each(|part| part.put(row..row + 1, room)),
        }
    }
}

/// Appends the replacement for a null of `nested`, whose fill is `fill`.
fn put_fill(nested: &Nested, fill: &[u8], room: &mut NestedRoom) -> Result<(), Reason> {
    match &nested.contents {
        LevelContents::Number(_) => room.put(fill),
        LevelContents::Text | LevelContents::Bytes => room.put_string(fill),
        LevelContents::List(_) => {
            room.put_len(0)?;
            room.put(&[0])
        }
        LevelContents::Dict(parts) => parts.iter().try_for_each(|(_, part)| match &part.nulls {
            LeafNulls::Fill(fill) => {
                room.put(&[0])?;
                put_fill(part, fill, room)
            }
            nulls => {
                room.is_broken |= *nulls == LeafNulls::Refuse;
                room.put(&[1, 0])
            }
        }),
    }
}
