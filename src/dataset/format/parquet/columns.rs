//! [`ParquetField`] and [`ParquetColumn`]: samples to write, and their conversion to Arrow arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, FixedSizeListArray, ListArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

use super::nested::{NestedArray, nested_type};
use crate::dataset::format::columnar::number_array;
use crate::dataset::format::field::nested_type::NestedType;
use crate::{DType, Error, Result};

/// The type of a field's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParquetElement {
    /// Numbers or booleans of a data type.
    Number(DType),
    /// UTF-8 strings.
    Text,
    /// Byte strings.
    Bytes,
    /// Nested lists and dictionaries, encoded as [`NestedType`] describes. Any value in them may be null.
    Nested(NestedType),
}

/// A field of the samples of a Parquet file. The whole value of a sample may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParquetField {
    /// The field name.
    pub name: String,
    /// The type of its elements.
    pub element: ParquetElement,
    /// True if samples are lists of any number of elements.
    pub is_list: bool,
    /// The shape of an element, stored as nested fixed-size lists; empty for strings and bytes.
    pub shape: Vec<usize>,
}

/// The values of a field for consecutive samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParquetColumn<'a> {
    /// The elements of all samples; placeholders for missing samples, except for lists, strings, and bytes.
    pub values: &'a [u8],
    /// For strings and bytes: the length of each.
    pub sizes: &'a [i64],
    /// For lists: the number of elements of each sample.
    pub lengths: &'a [i64],
    /// True for each missing sample; empty if none are missing.
    pub missing: &'a [bool],
}

/// A column that can be sliced by rows.
pub(super) struct Cut<'a> {
    field: &'a ParquetField,
    column: ParquetColumn<'a>,
    /// By sample: the number of elements before it; one more entry for the end.
    elements: Vec<usize>,
    /// By element: the number of bytes before it; one more entry for the end. Empty for numbers.
    bytes: Vec<usize>,
}

impl ParquetField {
    /// Returns the Arrow field.
    pub(crate) fn arrow(&self) -> Result<Field> {
        Ok(Field::new(&self.name, self.arrow_type()?, true))
    }

    fn arrow_type(&self) -> Result<DataType> {
        let mut data_type = match &self.element {
            ParquetElement::Text => DataType::Utf8,
            ParquetElement::Bytes => DataType::Binary,
            ParquetElement::Number(dtype) => number_type(*dtype).map_err(|reason| self.refuse(&reason))?,
            ParquetElement::Nested(_) if self.is_list || !self.shape.is_empty() => {
                return Err(self.refuse("nested values take no list or shape; declare lists in their own type"));
            }
            ParquetElement::Nested(of) => nested_type(of).map_err(|reason| self.refuse(&reason))?,
        };
        for &size in self.shape.iter().rev() {
            let size = i32::try_from(size).ok().filter(|&size| size > 0).ok_or_else(|| {
                self.refuse(&format!(
                    "arrays of shape {:?} are not supported: each axis must have from 1 to below 2^31 elements",
                    self.shape
                ))
            })?;
            data_type = DataType::FixedSizeList(element_of(data_type), size);
        }
        Ok(if self.is_list { DataType::List(element_of(data_type)) } else { data_type })
    }

    fn refuse(&self, reason: &str) -> Error {
        Error::invalid("fields", format!("`{}`: {reason}", self.name))
    }

    /// Returns how many numbers an element consists of.
    fn numbers(&self) -> usize {
        self.shape.iter().product()
    }
}

impl<'a> Cut<'a> {
    /// Creates a column of `rows` samples.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when its parts do not match.
    pub(super) fn new(field: &'a ParquetField, column: ParquetColumn<'a>, rows: usize) -> Result<Self> {
        let broken = || field.refuse("the numbers of its values, sizes, and lengths do not match");
        let elements = if field.is_list {
            ends(column.lengths).filter(|ends| ends.len() == rows + 1).ok_or_else(broken)?
        } else {
            (0..=rows).collect()
        };
        let count = elements[rows];
        let (bytes, total) = match field.element {
            ParquetElement::Number(dtype) => (Vec::new(), count.checked_mul(field.numbers() * dtype.bytes())),
            _ => {
                let bytes = ends(column.sizes).filter(|ends| ends.len() == count + 1).ok_or_else(broken)?;
                let total = bytes[count];
                (bytes, Some(total))
            }
        };
        if total != Some(column.values.len()) || !matches!(column.missing.len(), 0) && column.missing.len() != rows {
            return Err(broken());
        }
        Ok(Self { field, column, elements, bytes })
    }

    /// Returns the size of a sample before encoding, in bytes.
    pub(super) fn row_bytes(&self, row: usize) -> u64 {
        let values = self.value_range(&(row..row + 1));
        let offsets = match self.field.element {
            ParquetElement::Number(_) => 0,
            _ => 4 * (self.elements[row + 1] - self.elements[row]),
        };
        (values.len() + offsets + 4 * usize::from(self.field.is_list)) as u64
    }

    fn value_range(&self, rows: &Range<usize>) -> Range<usize> {
        let elements = self.elements[rows.start]..self.elements[rows.end];
        match self.field.element {
            ParquetElement::Number(dtype) => {
                let bytes = self.field.numbers() * dtype.bytes();
                elements.start * bytes..elements.end * bytes
            }
            _ => self.bytes[elements.start]..self.bytes[elements.end],
        }
    }

    /// Converts the samples `rows`, which take less than 2 GiB, to an array.
    pub(super) fn array(&self, rows: &Range<usize>) -> Result<ArrayRef> {
        let elements = self.elements[rows.start]..self.elements[rows.end];
        let values = &self.column.values[self.value_range(rows)];
        let nulls = self
            .column
            .missing
            .get(rows.clone())
            .filter(|missing| missing.contains(&true))
            .map(|missing| NullBuffer::new(BooleanBuffer::collect_bool(missing.len(), |row| !missing[row])));
        let refuse = |error: ArrowError| self.field.refuse(&error.to_string());
        // The nulls of the innermost array, if that is the column itself.
        let is_flat = !self.field.is_list && self.field.shape.is_empty();
        let own = nulls.clone().filter(|_| is_flat);
        let mut array = match &self.field.element {
            ParquetElement::Number(dtype) => numbers(*dtype, values, own),
            ParquetElement::Nested(of) => return self.nested(of, elements),
            element => {
                let sizes = elements.clone().map(|place| self.bytes[place + 1] - self.bytes[place]);
                let (offsets, values) = (OffsetBuffer::from_lengths(sizes), Buffer::from(values));
                match element {
                    ParquetElement::Text => {
                        Arc::new(StringArray::try_new(offsets, values, own).map_err(refuse)?) as ArrayRef
                    }
                    _ => Arc::new(BinaryArray::try_new(offsets, values, own).map_err(refuse)?),
                }
            }
        };
        for (depth, &size) in self.field.shape.iter().enumerate().rev() {
            let own = nulls.clone().filter(|_| depth == 0 && !self.field.is_list);
            let element = element_of(array.data_type().clone());
            array = Arc::new(FixedSizeListArray::try_new(element, size as i32, array, own).map_err(refuse)?);
        }
        if self.field.is_list {
            let lengths = rows.clone().map(|row| self.elements[row + 1] - self.elements[row]);
            let element = element_of(array.data_type().clone());
            let offsets = OffsetBuffer::from_lengths(lengths);
            array = Arc::new(ListArray::try_new(element, offsets, array, nulls).map_err(refuse)?);
        }
        Ok(array)
    }
}

impl Cut<'_> {
    /// Converts the nested values of the samples `rows` to an array.
    fn nested(&self, of: &NestedType, rows: Range<usize>) -> Result<ArrayRef> {
        let mut array = NestedArray::new(of);
        for row in rows {
            let value = &self.column.values[self.bytes[row]..self.bytes[row + 1]];
            array.push(value).ok_or_else(|| self.field.refuse("its bytes are not valid nested values of its type"))?;
        }
        let data_type = nested_type(of).map_err(|reason| self.field.refuse(&reason))?;
        array.finish(&data_type).map_err(|error| self.field.refuse(&error.to_string()))
    }
}

/// Returns the Arrow type for numbers of `dtype`, or the reason why there is none.
pub(super) fn number_type(dtype: DType) -> std::result::Result<DataType, String> {
    let array = number_array(dtype, &Buffer::from([].as_slice()), None);
    array
        .map(|array| array.data_type().clone())
        .ok_or_else(|| format!("Parquet has no data type for {dtype}; convert the values, or write their bytes"))
}

/// Returns the item field of a list, with the name that Parquet uses.
fn element_of(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("element", data_type, false))
}

/// Returns the cumulative sums of `parts`, starting at 0. Returns `None` for negative parts or on overflow.
fn ends(parts: &[i64]) -> Option<Vec<usize>> {
    let mut end = 0_usize;
    let rest = parts.iter().map(|&part| {
        end = end.checked_add(usize::try_from(part).ok()?)?;
        Some(end)
    });
    std::iter::once(Some(0)).chain(rest).collect()
}

pub(crate) fn numbers(dtype: DType, values: &[u8], nulls: Option<NullBuffer>) -> ArrayRef {
    // Copied, so that it is aligned.
    number_array(dtype, &Buffer::from(values), nulls).expect("`number_type` refuses all other types")
}
