//! [`InMemory`]: arrays that are already in memory.

use std::sync::Arc;

use super::{Dataset, ReadMany};
use crate::memory::{Array, Segment};
use crate::{BatchWriter, Element, Error, Field, Result, SampleWriter, Schema};

/// Arrays of the same length, one per field: sample i is row i of every array.
///
/// # Example
/// ```
/// use sluicegate::{Dataset, InMemory};
/// let points = InMemory::from_vec("point", vec![1.0_f32, 2.0, 3.0, 4.0], [2]).unwrap();
/// assert_eq!(points.len(), 2);
/// ```
pub struct InMemory {
    arrays: Vec<Array>,
    schema: Schema,
    len: usize,
}

impl InMemory {
    /// A dataset of `arrays`, whose rows have the shape and data type of the field paired with them.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] names the first array whose length differs; [`Error::InvalidArgument`] if there is
    /// none, or the rows of one differ in size from its field.
    #[doc(hidden)]
    pub fn new(arrays: Vec<(Field, Array)>) -> Result<Self> {
        let Some((first, len)) = arrays.first().map(|(field, array)| (field.name().to_owned(), array.len())) else {
            return Err(Error::invalid("arrays", "at least one array is needed"));
        };
        if let Some((other, array)) = arrays.iter().find(|(_, array)| array.len() != len) {
            return Err(Error::LengthMismatch {
                first,
                first_len: len,
                other: other.name().to_owned(),
                other_len: array.len(),
            });
        }
        if let Some((field, array)) = arrays.iter().find(|(field, array)| field.bytes() != array.bytes_per_row()) {
            let reason = format!(
                "field {field} has {} bytes, but a row of its array has {}",
                field.bytes(),
                array.bytes_per_row()
            );
            return Err(Error::invalid("arrays", reason));
        }
        let (fields, arrays): (Vec<_>, Vec<_>) = arrays.into_iter().unzip();
        Ok(Self { arrays, schema: Schema::new(fields), len })
    }

    /// A dataset of one field over `values`: as many samples of `shape` as there are values for.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the values do not fill whole samples, or a sample has no element.
    pub fn from_vec<T: Element>(name: &str, values: Vec<T>, shape: impl Into<Vec<usize>>) -> Result<Self> {
        let field = Field::new(name, T::DTYPE, shape);
        let per_sample = field.shape().iter().fold(1, |values: usize, &size| values.saturating_mul(size));
        if per_sample == 0 || !values.len().is_multiple_of(per_sample) {
            return Err(Error::invalid(
                "values",
                format!("{} values do not fill samples of shape {:?}", values.len(), field.shape()),
            ));
        }
        let mut shape = vec![values.len() / per_sample];
        shape.extend(field.shape());
        let segment = Arc::new(Segment::from_vec(values));
        let array = Array::contiguous(segment, 0, T::DTYPE.bytes(), &shape)?;
        Self::new(vec![(field, array)])
    }
}

impl Dataset for InMemory {
    fn len(&self) -> usize {
        self.len
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.arrays.iter().enumerate().try_for_each(|(field, array)| array.copy_row(index, into.field(field)))
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }
}

impl ReadMany for InMemory {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        self.arrays.iter().enumerate().try_for_each(|(field, array)| array.gather(indices, into.field(field)))
    }
}
