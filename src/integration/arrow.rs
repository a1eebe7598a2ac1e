//! Batches as Arrow record batches. For the other direction, see `RecordBatches`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, LargeListArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, FieldRef, Schema};

use crate::dataset::format::number_array;
use crate::{Batch, BatchField, BatchLayout, Column, Error, Result};

impl Batch {
    /// Converts the batch to an Arrow record batch with a column for each field and no nulls. Feature `arrow`.
    ///
    /// Nothing is copied except booleans, which Arrow packs: the columns hold the slot, which returns to its loader
    /// when the last column is dropped. A field of one number per sample becomes a primitive column, one with more axes
    /// a `FixedSizeList` (nested, one per axis), a variable one a `LargeList`. A padded field becomes a `FixedSizeList`
    /// that includes the padding; its [`lengths`](Self::lengths) are not represented.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if Arrow has no type for a field (bfloat16, complex numbers, 8-bit floats, or an axis
    /// of 2^31 or more elements); it names the first such field.
    ///
    /// # Example
    /// ```
    /// use arrow_array::{cast::AsArray, types::Float32Type};
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let points = InMemory::from_vec("point", vec![1.0_f32, 2.0, 3.0, 4.0], [2])?;
    /// let batch = DataLoader::builder(points).batch_size(2).build()?.epoch(0)?.next().expect("two samples")?;
    /// let columns = batch.into_record_batch()?;
    /// let points = columns.column_by_name("point").expect("the field").as_fixed_size_list();
    /// assert_eq!(points.value(1).as_primitive::<Float32Type>().values(), &[3.0, 4.0]);
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn into_record_batch(self) -> Result<RecordBatch> {
        let (BatchLayout { samples, columns, fields, .. }, lease) = self.into_parts();
        let slot = lease.into_arrow_buffer();
        let (mut schema, mut arrays) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
        for (field, column) in fields.iter().zip(columns) {
            let array = column_of(field, column, samples, &slot)?;
            schema.push(part(&field.name, &array));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(samples));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(schema)), arrays, &options).map_err(foreign)
    }
}

fn column_of(field: &BatchField, column: Column, samples: usize, slot: &Buffer) -> Result<ArrayRef> {
    let elements: usize = field.shape.iter().product();
    let values = slot.slice_with_length(column.offset(), elements * field.dtype.bytes());
    let values = number_array(field.dtype, &values, None);
    let values = values.ok_or_else(|| super::refused(&field.name, field.dtype, "Arrow"))?;
    let values = nested(field, values)?;
    let Column::Variable { offsets, .. } = column else { return Ok(values) };
    let offsets = slot.slice_with_length(offsets, (samples + 1) * size_of::<i64>());
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(LargeListArray::try_new(part("item", &values), offsets, values, None).map_err(foreign)?))
}

/// Wraps `values` in one list for every axis of `field` except the first.
fn nested(field: &BatchField, values: ArrayRef) -> Result<ArrayRef> {
    (1..field.shape.len()).rev().try_fold(values, |values, axis| {
        let (lists, size) = (field.shape[..axis].iter().product(), field.shape[axis]);
        let size = i32::try_from(size).map_err(|_| Error::InvalidArgument {
            argument: "field",
            reason: format!(
                "field `{}` has an axis of {size} elements, but lists of Arrow have at most 2^31 - 1",
                field.name
            ),
        })?;
        let lists = FixedSizeListArray::try_new_with_length(part("item", &values), size, values, None, lists);
        Ok(Arc::new(lists.map_err(foreign)?) as ArrayRef)
    })
}

/// Returns a field of an Arrow schema, named `name`, with the type of `array`.
fn part(name: &str, array: &ArrayRef) -> FieldRef {
    Arc::new(arrow_schema::Field::new(name, array.data_type().clone(), false))
}

fn foreign(error: ArrowError) -> Error {
    Error::User(Box::new(error))
}
