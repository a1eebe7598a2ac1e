//! [`SampleBlock`]: some samples of a stream, parsed and not yet in a batch.

use std::mem;

use super::decoding::Decoded;
use super::typed_field::TypedField;
use crate::dataset::StreamPosition;
use crate::{Error, Result};

/// Samples one after the other, by field, each with the position behind it.
///
/// # Example
/// ```
/// use sluicegate::{SampleBlock, StreamPosition, TypedField};
/// let fields = [TypedField::text("text")];
/// let mut block = SampleBlock::new(fields.len());
/// block.push(&fields, &[b"one"], StreamPosition { ordinal: 1, ..StreamPosition::default() })?;
/// assert_eq!((block.len(), block.value(0, 0)), (1, b"one".as_slice()));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct SampleBlock {
    pub(in crate::dataset::format) decoded: Decoded,
    positions: Vec<StreamPosition>,
    /// What was left out before or between them, a line for each.
    pub(in crate::dataset::format) left_out: Vec<String>,
    bytes: usize,
}

impl SampleBlock {
    /// Room for samples of this many fields.
    #[must_use]
    pub fn new(fields: usize) -> Self {
        Self { decoded: Decoded::new(fields, 0), positions: Vec::new(), left_out: Vec::new(), bytes: 0 }
    }

    /// Takes the samples out, and keeps as much room as they took, so that the next ones need not move while they come.
    pub(crate) fn take(&mut self) -> Self {
        let positions = Vec::with_capacity(self.positions.len());
        let empty = Self { decoded: self.decoded.emptied(), positions, left_out: Vec::new(), bytes: 0 };
        mem::replace(self, empty)
    }

    /// Appends a sample: by field its bytes, as they are in a batch. The stream is at `position` behind it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are not as many bytes as its field has.
    pub fn push(&mut self, fields: &[TypedField], values: &[&[u8]], position: StreamPosition) -> Result<()> {
        for (field, value) in values.iter().enumerate() {
            self.decoded.column(field).bytes.extend(*value);
        }
        self.end_sample(fields, position).map_err(|reason| {
            self.decoded.abandon_sample();
            Error::InvalidArgument { argument: "values", reason }
        })
    }

    /// Ends the sample that the columns have been filled with.
    pub(in crate::dataset::format) fn end_sample(
        &mut self,
        fields: &[TypedField],
        position: StreamPosition,
    ) -> std::result::Result<(), String> {
        let bytes = self.decoded.filled();
        self.decoded.end_sample(fields)?;
        self.bytes += bytes;
        self.positions.push(position);
        Ok(())
    }

    /// Says that a sample was left out, and why, in a line.
    pub fn leave_out(&mut self, line: String) {
        self.left_out.push(line);
    }

    /// Forgets all that is in it, but not the memory that it took.
    pub fn clear(&mut self) {
        self.decoded.clear();
        self.positions.clear();
        self.left_out.clear();
        self.bytes = 0;
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// True if there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The bytes of all samples together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of field `field` of the sample in row `row`.
    #[must_use]
    pub fn value(&self, field: usize, row: usize) -> &[u8] {
        self.decoded.value(field, row)
    }

    /// Where the stream is behind the sample in row `row`.
    #[must_use]
    pub fn position(&self, row: usize) -> StreamPosition {
        self.positions[row]
    }

    /// What was left out since the block before this one, a line for each.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}
