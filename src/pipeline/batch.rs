//! [`Batch`]: a filled slot.

use crate::collate::{BatchField, BatchLayout};
use crate::memory::Lease;
use crate::{Column, Element, Error, Result};

/// The samples of one batch: a slot, and how the fields lie in it. It stays valid as long as it is kept.
#[derive(Debug)]
pub struct Batch {
    layout: BatchLayout,
    lease: Lease,
}

impl Batch {
    pub(crate) fn new(layout: BatchLayout, lease: Lease) -> Self {
        Self { layout, lease }
    }

    /// The number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.layout.samples
    }

    /// The fields, in the order of the dataset's schema.
    #[must_use]
    pub fn fields(&self) -> &[BatchField] {
        &self.layout.fields
    }

    /// The bytes of field `field`: its samples one after the other, each in C order, with their padding if they have some.
    #[must_use]
    pub fn bytes(&self, field: usize) -> &[u8] {
        let BatchField { dtype, shape, .. } = &self.layout.fields[field];
        let bytes = shape.iter().product::<usize>() * dtype.bytes();
        &self.lease.bytes()[self.layout.columns[field].offset()..][..bytes]
    }

    /// The bytes of the sample in row `row` in field `field`, in C order and without padding.
    #[must_use]
    pub fn sample(&self, field: usize, row: usize) -> &[u8] {
        &self.lease.bytes()[self.layout.columns[field].sample(self.lease.bytes(), row)]
    }

    /// By row, the number of elements in the samples of variable field `field`; nothing for one of fixed size.
    #[must_use]
    pub fn lengths(&self, field: usize) -> Option<Vec<usize>> {
        let bytes_per_element = match self.layout.columns[field] {
            Column::Fixed { .. } => return None,
            Column::Variable { bytes_per_element, .. } | Column::Padded { bytes_per_element, .. } => bytes_per_element,
        };
        let length = |row| self.sample(field, row).len().checked_div(bytes_per_element).unwrap_or(0);
        Some((0..self.layout.samples).map(length).collect())
    }

    /// The elements of field `field`, copied out.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the field has another data type.
    pub fn to_vec<T: Element>(&self, field: usize) -> Result<Vec<T>> {
        let BatchField { name, dtype, .. } = &self.layout.fields[field];
        if *dtype != T::DTYPE {
            return Err(Error::InvalidArgument {
                argument: "field",
                reason: format!("field `{name}` holds {dtype}, not {}", T::DTYPE),
            });
        }
        Ok(self.bytes(field).chunks_exact(dtype.bytes()).map(T::from_ne_bytes).collect())
    }

    /// The layout and the lease, for a foreign owner of views.
    #[must_use]
    pub fn into_parts(self) -> (BatchLayout, Lease) {
        (self.layout, self.lease)
    }
}
