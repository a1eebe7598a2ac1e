//! Converts encoded nested values to Arrow arrays.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};

use super::columns::{number_type, numbers};
use crate::DType;
use crate::dataset::format::field::nested_type::{NestedBytes, NestedType, Presence};

/// Returns the Arrow type for values of type `of`, or the reason why there is none.
pub(crate) fn nested_type(of: &NestedType) -> Result<DataType, String> {
    Ok(match of {
        NestedType::Number(dtype) => number_type(*dtype)?,
        NestedType::Text => DataType::Utf8,
        NestedType::Bytes => DataType::Binary,
        NestedType::List(item) => DataType::List(element_of(nested_type(item)?)),
        NestedType::Dict(parts) => {
            let part = |(name, part): &(String, NestedType)| Ok(Field::new(name, nested_type(part)?, true));
            DataType::Struct(parts.iter().map(part).collect::<Result<Fields, String>>()?)
        }
    })
}

/// Returns the item field of a list. Items may be null.
fn element_of(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("element", data_type, true))
}

/// An array under construction.
pub(super) struct NestedArray {
    made: Made,
    valid: Vec<bool>,
}

enum Made {
    Numbers(DType, Vec<u8>),
    Strings { is_text: bool, lengths: Vec<usize>, bytes: Vec<u8> },
    Lists { lengths: Vec<usize>, items: Box<NestedArray> },
    Dicts(Vec<NestedArray>),
}

impl NestedArray {
    /// Creates an empty array of values of type `of`.
    pub(super) fn new(of: &NestedType) -> Self {
        let strings = |is_text| Made::Strings { is_text, lengths: Vec::new(), bytes: Vec::new() };
        let made = match of {
            NestedType::Number(dtype) => Made::Numbers(*dtype, Vec::new()),
            NestedType::Text => strings(true),
            NestedType::Bytes => strings(false),
            NestedType::List(item) => Made::Lists { lengths: Vec::new(), items: Box::new(Self::new(item)) },
            NestedType::Dict(parts) => Made::Dicts(parts.iter().map(|(_, part)| Self::new(part)).collect()),
        };
        Self { made, valid: Vec::new() }
    }

    /// Appends the value encoded in `bytes`. Returns `None` if they are invalid.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let mut bytes = NestedBytes::new(bytes);
        self.sequence(&mut bytes, 1)?;
        bytes.is_empty().then_some(())
    }

    fn sequence(&mut self, bytes: &mut NestedBytes<'_>, len: usize) -> Option<()> {
        let presence = bytes.presence(len)?;
        if let (Made::Numbers(dtype, values), Presence::All) = (&mut self.made, &presence) {
            values.extend(bytes.take(dtype.bytes().checked_mul(len)?)?);
            self.valid.resize(self.valid.len() + len, true);
            return Some(());
        }
        (0..len).try_for_each(|row| match presence.is_present(row) {
            true => self.push_present(bytes),
            false => {
                self.absent();
                Some(())
            }
        })
    }

    fn push_present(&mut self, bytes: &mut NestedBytes<'_>) -> Option<()> {
        self.valid.push(true);
        match &mut self.made {
            Made::Numbers(dtype, values) => values.extend(bytes.take(dtype.bytes())?),
            Made::Strings { lengths, bytes: all, .. } => {
                let string = bytes.string()?;
                lengths.push(string.len());
                all.extend(string);
            }
            Made::Lists { lengths, items } => {
                let len = bytes.len()?;
                lengths.push(len);
                items.sequence(bytes, len)?;
            }
            Made::Dicts(parts) => parts.iter_mut().try_for_each(|part| part.sequence(bytes, 1))?,
        }
        Some(())
    }

    fn absent(&mut self) {
        self.valid.push(false);
        match &mut self.made {
            Made::Numbers(dtype, values) => values.resize(values.len() + dtype.bytes(), 0),
            Made::Strings { lengths, .. } | Made::Lists { lengths, .. } => lengths.push(0),
            Made::Dicts(parts) => parts.iter_mut().for_each(Self::absent),
        }
    }

    /// Returns the finished array, whose type is `data_type`.
    pub(super) fn finish(self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        Ok(match (self.made, data_type) {
            (Made::Numbers(dtype, values), _) => numbers(dtype, &values, nulls),
            (Made::Strings { is_text, lengths, bytes }, _) => {
                let (offsets, bytes) = (OffsetBuffer::from_lengths(lengths), Buffer::from_vec(bytes));
                match is_text {
                    true => Arc::new(StringArray::try_new(offsets, bytes, nulls)?) as ArrayRef,
                    false => Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?),
                }
            }
            (Made::Lists { lengths, items }, DataType::List(element)) => {
                let items = items.finish(element.data_type())?;
                let offsets = OffsetBuffer::from_lengths(lengths);
                Arc::new(ListArray::try_new(Arc::clone(element), offsets, items, nulls)?)
            }
            (Made::Dicts(parts), DataType::Struct(fields)) => {
                let arrays = parts.into_iter().zip(fields).map(|(part, field)| part.finish(field.data_type()));
                Arc::new(StructArray::try_new(fields.clone(), arrays.collect::<Result<_, _>>()?, nulls)?)
            }
            (_, other) => {
                return Err(ArrowError::InvalidArgumentError(format!("nested values can't be written as {other}")));
            }
        })
    }
}
