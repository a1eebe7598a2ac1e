//! [`StackSamples`]: torch's default collate for arrays.

use super::{BatchField, BatchLayout, Collate};
use crate::{Column, Error, Result, Schema};

/// Every field begins at a multiple of this, as every tensor that torch allocates does.
const ALIGNMENT: usize = 64;

/// Stacks each field along a new first axis, as torch's `default_collate` does with tensors of one shape.
///
/// # Example
/// ```
/// use sluicegate::{Collate, DType, Field, Schema, StackSamples};
/// let schema = Schema::new([Field::new("x", DType::Float32, [8]), Field::new("y", DType::Int64, [])]);
/// let layout = StackSamples.layout(&schema, 256).unwrap();
/// assert_eq!((layout.fields[0].shape.as_slice(), layout.columns[1].offset), ([256, 8].as_slice(), 8192));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct StackSamples;

impl Collate for StackSamples {
    fn layout(&self, schema: &Schema, samples: usize) -> Result<BatchLayout> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        let mut fields = Vec::with_capacity(schema.fields().len());
        let mut bytes = 0_usize;
        for field in schema.fields() {
            let bytes_per_sample = field.bytes();
            columns.push(Column { offset: bytes, bytes_per_sample });
            bytes = bytes_per_sample
                .checked_mul(samples)
                .and_then(|size| bytes.checked_add(size)?.checked_next_multiple_of(ALIGNMENT))
                .ok_or_else(|| Error::InvalidArgument {
                    argument: "batch_size",
                    reason: format!("{samples} samples of {field} are more bytes than an address can count"),
                })?;
            let mut shape = Vec::with_capacity(field.shape().len() + 1);
            shape.push(samples);
            shape.extend(field.shape());
            fields.push(BatchField { name: field.name().to_owned(), dtype: field.dtype(), shape });
        }
        Ok(BatchLayout { samples, bytes, columns, fields })
    }
}
