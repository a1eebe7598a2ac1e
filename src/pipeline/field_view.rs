//! [`FieldView`]: one field of a batch, for reading.

use crate::collate::BatchField;
use crate::memory::typed_elements;
use crate::{Column, DType, Element, Error, Result};

/// One field of a [`Batch`](super::Batch), read in place: nothing is copied.
///
/// # Example
/// ```
/// use sluicegate::{CsvHeader, DType, StreamBatches, StreamDataset, StreamFormat, StreamSource, TypedField};
///
/// let format = StreamFormat::csv(Some(vec![TypedField::text("word")]), Vec::new(), CsvHeader::FirstRow, b',');
/// let words = StreamDataset::new(vec![StreamSource::Command("echo word; echo one; echo three".into())], format);
/// let batch = StreamBatches::new(words, 2)?.next().expect("two samples")?;
/// let word = batch.field("word")?;
/// assert_eq!((word.dtype(), word.shape(), word.lengths()), (DType::UInt8, [8].as_slice(), Some(vec![3, 5])));
/// assert_eq!((word.sample::<u8>(1)?, word.sample_shape(1)?), (b"three".as_slice(), vec![5]));
/// assert!(word.rows::<u8>()?.eq([b"one".as_slice(), b"three"]));
/// assert!(word.view::<i64>().is_err());
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FieldView<'a> {
    field: &'a BatchField,
    column: Column,
    slot: &'a [u8],
    samples: usize,
}

impl<'a> FieldView<'a> {
    pub(super) fn new(field: &'a BatchField, column: Column, slot: &'a [u8], samples: usize) -> Self {
        Self { field, column, slot, samples }
    }

    /// Returns the name of the field in the schema.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.field.name
    }

    /// Returns the data type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.field.dtype
    }

    /// Returns the shape: the first axis counts the samples, or, in a variable field, the elements of all samples
    /// ([`BatchField::shape`](crate::BatchField::shape)).
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        &self.field.shape
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Returns the bytes of all samples in C order, including padding.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        let bytes = self.field.shape.iter().product::<usize>() * self.field.dtype.bytes();
        &self.slot[self.column.offset()..][..bytes]
    }

    /// Returns the elements of all samples in C order, as an array of [`shape`](Self::shape).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type.
    pub fn view<T: Element>(&self) -> Result<&'a [T]> {
        self.typed(self.bytes())
    }

    /// Returns the elements of the sample in row `row`, in C order and without padding.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type, or the batch has no such row.
    pub fn sample<T: Element>(&self, row: usize) -> Result<&'a [T]> {
        self.check_row(row)?;
        self.typed(&self.slot[self.column.sample(self.slot, row)])
    }

    /// Returns the shape of the sample in row `row`, without padding.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the batch has no such row.
    pub fn sample_shape(&self, row: usize) -> Result<Vec<usize>> {
        self.check_row(row)?;
        let (element, bytes_per_element) = match self.column {
            Column::Fixed { .. } => return Ok(self.field.shape[1..].to_vec()),
            Column::Variable { bytes_per_element, .. } => (&self.field.shape[1..], bytes_per_element),
            Column::Padded { bytes_per_element, .. } => (&self.field.shape[2..], bytes_per_element),
        };
        let bytes = self.column.sample(self.slot, row).len();
        Ok([&[bytes.checked_div(bytes_per_element).unwrap_or(0)], element].concat())
    }

    /// Returns an iterator over each sample's elements, as [`sample`](Self::sample) returns them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type.
    pub fn rows<T: Element>(&self) -> Result<impl ExactSizeIterator<Item = &'a [T]> + use<'a, T>> {
        let view = *self;
        view.view::<T>()?;
        Ok((0..self.samples).map(move |row| view.sample(row).expect("the data type is right, and the row is there")))
    }

    /// Returns the number of elements of each sample of a variable field, by row, or None for a field of fixed size.
    #[must_use]
    pub fn lengths(&self) -> Option<Vec<usize>> {
        let bytes_per_element = match self.column {
            Column::Fixed { .. } => return None,
            Column::Variable { bytes_per_element, .. } | Column::Padded { bytes_per_element, .. } => bytes_per_element,
        };
        let length = |row| self.column.sample(self.slot, row).len().checked_div(bytes_per_element).unwrap_or(0);
        Some((0..self.samples).map(length).collect())
    }

    fn check_row(&self, row: usize) -> Result<()> {
        if row < self.samples {
            return Ok(());
        }
        Err(Error::invalid("row", format!("there is no row {row} in a batch of {} samples", self.samples)))
    }

    fn typed<T: Element>(&self, bytes: &'a [u8]) -> Result<&'a [T]> {
        typed_elements(&self.field.name, self.field.dtype, bytes)
    }
}
