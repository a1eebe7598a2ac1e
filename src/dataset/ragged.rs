//! [`Ragged`]: samples of any size that are already in memory.

use super::{Dataset, VariableSize};
use crate::memory::Array;
use crate::{Error, Field, Result, SampleWriter, Schema, SizesWriter};

/// Samples of one variable-size field, stored one after the other in an array, like Arrow's lists and strings: sample i
/// consists of the elements from `offsets[i]` to `offsets[i + 1]`.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::internal::{Array, Ragged, Segment};
/// use sluicegate::{DType, Dataset, Field};
/// let text = Arc::new(Segment::from_vec(b"onethree".to_vec()));
/// let letters = Array::contiguous(text, 0, 1, &[8]).unwrap();
/// let words = Ragged::new(Field::variable("word", DType::UInt8, []), letters, vec![0, 3, 8]).unwrap();
/// assert_eq!(words.len(), 2);
/// ```
pub struct Ragged {
    values: Array,
    offsets: Vec<usize>,
    schema: Schema,
}

impl Ragged {
    /// The samples of `field`, whose elements are the rows of `values`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field is not variable, its elements differ in size from the rows, or the
    /// offsets decrease or point past the end of the array.
    pub fn new(field: Field, values: Array, offsets: Vec<usize>) -> Result<Self> {
        let refuse = |argument, reason| Err(Error::invalid(argument, reason));
        if !field.is_variable() || field.bytes() != values.bytes_per_row() {
            let reason = format!(
                "expected a variable field with elements of {} bytes, the size of a row of the array, got {field}",
                values.bytes_per_row()
            );
            return refuse("field", reason);
        }
        if offsets.last().is_none_or(|&end| end > values.len()) || !offsets.is_sorted() {
            let reason = format!(
                "expected offsets that never decrease and end within the array, which has {} elements",
                values.len()
            );
            return refuse("offsets", reason);
        }
        Ok(Self { values, offsets, schema: Schema::new([field]) })
    }

    /// The elements of sample `index`.
    fn elements(&self, index: usize) -> Result<std::ops::Range<usize>> {
        match self.offsets.get(index..).and_then(|offsets| offsets.get(..2)) {
            Some(&[start, end]) => Ok(start..end),
            _ => Err(Error::IndexOutOfRange { index, len: self.len() }),
        }
    }
}

impl Dataset for Ragged {
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.values.copy_range(self.elements(index)?, into.field(0))
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        Some(self)
    }
}

impl VariableSize for Ragged {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        for (row, &index) in indices.iter().enumerate() {
            into.set(row, 0, self.elements(index)?.len());
        }
        Ok(())
    }
}
