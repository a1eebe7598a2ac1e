//! [`StackSamples`]: torch's default collate for arrays.

use super::layout::elements_of;
use super::{BatchLayout, Collate};
use crate::{Column, Result, Schema, Sizes};

/// Stacks each field along a new first axis, like torch's `default_collate` for tensors of one shape. The samples of a
/// variable field are concatenated, and offsets mark where each begins.
///
/// # Example
/// ```
/// use sluicegate::{Collate, DType, Field, Schema, Sizes, StackSamples};
/// let schema = Schema::new([Field::new("x", DType::Float32, [8]), Field::new("y", DType::Int64, [])]);
/// let layout = StackSamples.layout(&schema, &Sizes::fixed(256)).unwrap();
/// assert_eq!((layout.fields[0].shape.as_slice(), layout.columns[1].offset()), ([256, 8].as_slice(), 8192));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct StackSamples;

impl Collate for StackSamples {
    fn layout(&self, schema: &Schema, sizes: &Sizes) -> Result<BatchLayout> {
        let mut layout = BatchLayout::with_room(sizes.samples(), schema.fields().len());
        for field in 0..schema.fields().len() {
            add_stacked(&mut layout, schema, field, sizes)?;
        }
        Ok(layout)
    }
}

/// Adds field number `number` of `schema`, stacked.
#[inline]
pub(super) fn add_stacked(layout: &mut BatchLayout, schema: &Schema, number: usize, sizes: &Sizes) -> Result<()> {
    let (field, samples) = (&schema.fields()[number], sizes.samples());
    let bytes = field.bytes();
    if !field.is_variable() {
        let offset = layout.add(field, samples, bytes)?;
        layout.push(field, Column::Fixed { offset, bytes_per_sample: bytes }, &[samples]);
        return Ok(());
    }
    let (total, _) = elements_of(schema, number, sizes)?;
    let offsets = layout.add(field, samples.saturating_add(1), size_of::<i64>())?;
    let offset = layout.add(field, total, bytes)?;
    layout.push(field, Column::Variable { offset, bytes_per_element: bytes, offsets }, &[total]);
    Ok(())
}
