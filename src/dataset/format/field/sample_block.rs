//! [`SampleBlock`]: parsed samples of a stream, not yet in a batch.

use std::mem;

use super::decoding::Decoded;
use super::typed_field::TypedField;
use crate::dataset::StreamPosition;
use crate::{Error, Result};

/// Consecutive samples, by field, each with the stream position after it.
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
    pub(crate) decoded: Decoded,
    positions: Vec<StreamPosition>,
    /// What was left out before or between them, one line each.
    pub(crate) left_out: Vec<String>,
    bytes: usize,
}

impl SampleBlock {
    /// An empty block for samples of this many fields.
    #[must_use]
    pub fn new(fields: usize) -> Self {
        Self { decoded: Decoded::new(fields, 0), positions: Vec::new(), left_out: Vec::new(), bytes: 0 }
    }

    /// Takes the samples out, and reserves as much memory as they used, so that the next ones need no reallocation.
    pub(crate) fn take(&mut self) -> Self {
        let positions = Vec::with_capacity(self.positions.len());
        let empty = Self { decoded: self.decoded.emptied(), positions, left_out: Vec::new(), bytes: 0 };
        mem::replace(self, empty)
    }

    /// Appends a sample: the bytes of each field, as in a batch. `position` is the stream position after it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a field has the wrong number of bytes.
    pub fn push(&mut self, fields: &[TypedField], values: &[&[u8]], position: StreamPosition) -> Result<()> {
        for (field, value) in values.iter().enumerate() {
            self.decoded.column(field).bytes.extend(*value);
        }
        self.end_sample(fields, position).map_err(|reason| {
            self.decoded.abandon_sample();
            Error::invalid("values", reason)
        })
    }

    /// Ends the sample whose bytes are in the columns.
    pub(crate) fn end_sample(
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

    /// Records, in one line, that a sample was left out, and why.
    pub fn leave_out(&mut self, line: String) {
        self.left_out.push(line);
    }

    /// Removes everything, but keeps the allocated memory.
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

    /// True if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The total bytes of all samples.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of field `field` of the sample in row `row`.
    #[must_use]
    pub fn value(&self, field: usize, row: usize) -> &[u8] {
        self.decoded.value(field, row)
    }

    /// The stream position after the sample in row `row`.
    #[must_use]
    pub fn position(&self, row: usize) -> StreamPosition {
        self.positions[row]
    }

    /// What was left out since the previous block, one line each.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}
