//! [`Sample`]: one sample, for reading.

use crate::collate::BatchLayout;
use crate::memory::typed_elements;
use crate::{Element, Error, Result};

/// One sample of a dataset, as passed to an adaptor's closure.
///
/// # Example
/// ```
/// use sluicegate::{DatasetExt, InMemory};
///
/// let points = InMemory::from_vec("point", vec![1.0_f32, 2.0, 3.0, 4.0], [2])?;
/// let mut sums = Vec::new();
/// let all = points.filter(|sample| {
///     sums.push((sample.index(), sample.values::<f32>(0)?.iter().sum::<f32>()));
///     Ok(true)
/// })?;
/// assert_eq!(sums, [(0, 3.0), (1, 7.0)]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    index: usize,
    row: usize,
    layout: &'a BatchLayout,
    slot: &'a [u8],
}

impl<'a> Sample<'a> {
    pub(super) fn new(index: usize, row: usize, layout: &'a BatchLayout, slot: &'a [u8]) -> Self {
        Self { index, row, layout, slot }
    }

    /// Returns its index in the dataset that it was read from.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of fields.
    #[must_use]
    pub fn fields(&self) -> usize {
        self.layout.fields.len()
    }

    /// Returns the bytes of field `field`, in C order.
    ///
    /// # Panics
    /// If there are not that many fields.
    #[must_use]
    pub fn bytes(&self, field: usize) -> &'a [u8] {
        &self.slot[self.layout.columns[field].sample(self.slot, self.row)]
    }

    /// Returns the elements of field `field`, in C order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type, or there are not that many fields.
    pub fn values<T: Element>(&self, field: usize) -> Result<&'a [T]> {
        let Some(of) = self.layout.fields.get(field) else {
            let reason = format!("there is no field {field} (counted from 0) in a sample of {}", self.fields());
            return Err(Error::invalid("field", reason));
        };
        typed_elements(&of.name, of.dtype, self.bytes(field))
    }
}
