//! [`PadSamples`]: collates samples of any size into one array.

use super::layout::elements_of;
use super::stack::add_stacked;
use super::{BatchLayout, Collate};
use crate::{Column, Error, Result, Schema, Sizes};

/// How to pad samples of variable size.
///
/// # Example
/// ```
/// use sluicegate::{Collate, DType, Field, PadSamples, Padding, Schema, Sizes};
/// let schema = Schema::new([Field::variable("token", DType::UInt16, [])]);
/// let mut sizes = Sizes::new(&schema, 2);
/// sizes.writer().set(1, 0, 5);
/// let padded = PadSamples::new().with(0, Padding::new([0xff, 0xff]).to_multiple_of(8));
/// assert_eq!(padded.layout(&schema, &sizes).unwrap().fields[0].shape, [2, 8]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Padding {
    fill: Vec<u8>,
    is_left: bool,
    multiple: usize,
    length: Option<usize>,
}

impl Padding {
    /// Pads after each sample, up to the end of the longest, with `fill`: the bytes of one value of its data type.
    #[must_use]
    pub fn new(fill: impl Into<Vec<u8>>) -> Self {
        Self { fill: fill.into(), is_left: false, multiple: 1, length: None }
    }

    /// Pads before each sample instead.
    #[must_use]
    pub fn on_left(self) -> Self {
        Self { is_left: true, ..self }
    }

    /// Rounds the padded length up to a multiple of `elements`.
    #[must_use]
    pub fn to_multiple_of(self, elements: usize) -> Self {
        Self { multiple: elements.max(1), ..self }
    }

    /// Pads all samples to `elements`, before rounding up; a batch with a longer sample fails.
    #[must_use]
    pub fn to_length(self, elements: usize) -> Self {
        Self { length: Some(elements), ..self }
    }

    /// Returns the bytes of the padding value.
    #[must_use]
    pub fn fill(&self) -> &[u8] {
        &self.fill
    }

    /// Returns the number of elements to which each sample of `field` is padded, if the longest has `longest`.
    fn room(&self, field: &str, longest: usize) -> Result<usize> {
        let refuse = |reason: String| Error::invalid("padding", reason);
        let length = self.length.unwrap_or(longest);
        let room = length.checked_next_multiple_of(self.multiple);
        let room = room.ok_or_else(|| {
            refuse(format!("{length} can't be rounded up to a multiple of {}: the result is too large", self.multiple))
        })?;
        if longest > room {
            return Err(refuse(format!("a sample of field `{field}` has {longest} elements, more than {room}")));
        }
        Ok(room)
    }
}

/// Pads the samples of the selected variable fields to the length that the longest in the batch needs. All other fields
/// are stacked as by [`StackSamples`](super::StackSamples).
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
    fills: Vec<(usize, Padding)>,
}

impl PadSamples {
    /// Returns a collate that pads no field yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pads field `field`, if it is variable, with `fill`: the bytes of one value of its data type.
    #[must_use]
    pub fn field(self, field: usize, fill: impl Into<Vec<u8>>) -> Self {
        self.with(field, Padding::new(fill))
    }

    /// Pads field `field`, if it is variable, as `padding` specifies.
    #[must_use]
    pub fn with(mut self, field: usize, padding: Padding) -> Self {
        self.fills.push((field, padding));
        self
    }

    /// True if no field is padded.
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
            let padding = self.fills.iter().find(|(padded, _)| *padded == number && field.is_variable());
            let Some((_, padding)) = padding else {
                add_stacked(&mut layout, schema, number, sizes)?;
                continue;
            };
            let (given, expected) = (padding.fill.len(), field.dtype().bytes());
            if given != expected {
                let reason =
                    format!("the fill of field `{}` has {given} bytes, but a value has {expected}", field.name());
                return Err(Error::invalid("padding", reason));
            }
            let (_, longest) = elements_of(schema, number, sizes)?;
            let room = padding.room(field.name(), longest)?;
            let lengths = layout.add(field, samples, size_of::<i64>())?;
            let bytes_per_element = field.bytes();
            // If the product overflows, `add` has rejected the same number of bytes.
            let offset = layout.add(field, samples.saturating_mul(room), bytes_per_element)?;
            let bytes_per_sample = room.saturating_mul(bytes_per_element);
            layout.push(
                field,
                Column::Padded { offset, bytes_per_element, bytes_per_sample, lengths, at_end: padding.is_left },
                &[samples, room],
            );
            layout.padding.push((number, padding.fill.clone()));
        }
        Ok(layout)
    }
}
