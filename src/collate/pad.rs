//! [`PadSamples`]: samples of any size in one array.

use super::layout::elements_of;
use super::stack::add_stacked;
use super::{BatchLayout, Collate};
use crate::{Column, Result, Schema, Sizes};

/// Gives every sample of the chosen variable fields as much room as the longest in its batch needs, and fills the rest of
/// it. All other fields are stacked as [`StackSamples`](super::StackSamples) does it.
///
/// # Example
/// ```
/// use sluicegate::{Collate, DType, Field, PadSamples, Schema, Sizes};
/// let schema = Schema::new([Field::variable("token", DType::UInt16, [])]);
/// let mut sizes = Sizes::new(&schema, 2);
/// sizes.writer().set(1, 0, 5);
/// let padded = PadSamples::new().field(0, [0xff, 0xff]);
/// assert_eq!(padded.layout(&schema, &sizes).unwrap().fields[0].shape, [2, 5]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct PadSamples {
    fills: Vec<(usize, Vec<u8>)>,
}

impl PadSamples {
    /// Pads no field yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pads field `field`, if it is variable, with `fill`: the bytes of one value of its data type.
    #[must_use]
    pub fn field(mut self, field: usize, fill: impl Into<Vec<u8>>) -> Self {
        self.fills.push((field, fill.into()));
        self
    }

    /// Whether no field is padded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fills.is_empty()
    }
}

impl Collate for PadSamples {
    fn layout(&self, schema: &Schema, sizes: &Sizes) -> Result<BatchLayout> {
        let samples = sizes.samples();
        let mut layout = BatchLayout::with_room(samples, schema.fields().len());
        for (number, field) in schema.fields().iter().enumerate() {
            let fill = self.fills.iter().find(|(padded, _)| *padded == number && field.is_variable());
            let Some((_, fill)) = fill.filter(|(_, fill)| fill.len() == field.dtype().bytes()) else {
                add_stacked(&mut layout, schema, number, sizes)?;
                continue;
            };
            let (_, longest) = elements_of(schema, number, sizes)?;
            let lengths = layout.add(field, samples, size_of::<i64>())?;
            let bytes_per_element = field.bytes();
            // Where the product wraps, `add` has refused the same number of bytes.
            let offset = layout.add(field, samples.saturating_mul(longest), bytes_per_element)?;
            let bytes_per_sample = longest.saturating_mul(bytes_per_element);
            layout.push(
                field,
                Column::Padded { offset, bytes_per_element, bytes_per_sample, lengths },
                &[samples, longest],
            );
            layout.padding.push((number, fill.clone()));
        }
        Ok(layout)
    }
}
