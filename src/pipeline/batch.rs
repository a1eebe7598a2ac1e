//! [`Batch`]: a filled slot.

use super::FieldView;
use crate::collate::{BatchField, BatchLayout, Collate};
use crate::memory::{Lease, Slab};
use crate::{BatchWriter, Element, Error, Result, Schema, Sizes};

/// The samples of one batch: a slot, and the layout of the fields in it. It stays valid as long as it is kept.
///
/// # Example
/// ```
/// use sluicegate::{DataLoader, InMemory};
///
/// let numbers = InMemory::from_vec("number", vec![5_i64, 6, 7, 8], [])?;
/// let loader = DataLoader::builder(numbers).batch_size(2).build()?;
/// let batch = loader.epoch(0)?.nth(1).expect("there are two batches")?;
/// assert_eq!(batch.field("number")?.view::<i64>()?, [7, 8]);
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Debug)]
pub struct Batch {
    layout: BatchLayout,
    lease: Lease,
}

impl Batch {
    pub(crate) fn new(layout: BatchLayout, lease: Lease) -> Self {
        Self { layout, lease }
    }

    /// Lays out `samples` samples with `collate` in a slot of `slab`; `value` returns the bytes of one value, by sample
    /// and field.
    pub(super) fn gather<'a>(
        schema: &Schema,
        samples: usize,
        collate: &dyn Collate,
        slab: &Slab,
        value: impl Fn(usize, usize) -> &'a [u8],
    ) -> Result<Self> {
        let mut sizes = Sizes::new(schema, samples);
        let mut writer = sizes.writer();
        for (number, field) in schema.fields().iter().enumerate().filter(|(_, field)| field.is_variable()) {
            for place in 0..samples {
                writer.set(place, number, value(place, number).len().checked_div(field.bytes()).unwrap_or(0));
            }
        }
        let layout = collate.layout(schema, &sizes)?;
        let mut lease = slab.lease(layout.bytes)?;
        layout.write_sizes(&sizes, lease.bytes_mut());
        let mut into = BatchWriter::new(lease.bytes_mut(), &layout.columns, layout.samples);
        for place in 0..samples {
            let mut into = into.sample(place);
            for number in 0..schema.fields().len() {
                into.field(number).copy_from_slice(value(place, number));
            }
        }
        layout.pad(lease.bytes_mut());
        Ok(Self::new(layout, lease))
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.layout.samples
    }

    /// Returns the number of bytes used in its slot: all fields, including the lengths of variable samples.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.lease.len()
    }

    /// Returns the fields, in the order of the dataset's schema.
    #[must_use]
    pub fn fields(&self) -> &[BatchField] {
        &self.layout.fields
    }

    /// Returns the field `name` for reading: its shape, and its elements as stored in the slot.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no field of that name; the message lists the existing fields.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DataLoader, InMemory};
    ///
    /// let points = InMemory::from_vec("point", vec![1.0_f32, 2.0, 3.0, 4.0], [2])?;
    /// let batch = DataLoader::builder(points).batch_size(2).build()?.epoch(0)?.next().expect("two samples")?;
    /// let point = batch.field("point")?;
    /// assert_eq!((point.shape(), point.view::<f32>()?), ([2, 2].as_slice(), [1.0, 2.0, 3.0, 4.0].as_slice()));
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn field(&self, name: &str) -> Result<FieldView<'_>> {
        match self.fields().iter().position(|field| field.name == name) {
            Some(field) => self.field_at(field),
            None => Err(self.no_field(format!("there is no field `{name}`"))),
        }
    }

    /// Returns the field at position `field` of the dataset's schema for reading, like [`field`](Self::field).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are not that many fields.
    pub fn field_at(&self, field: usize) -> Result<FieldView<'_>> {
        match (self.layout.fields.get(field), self.layout.columns.get(field)) {
            (Some(of), Some(&column)) => Ok(FieldView::new(of, column, self.lease.bytes(), self.samples())),
            _ => Err(self.no_field(format!("there is no field {field} (counted from 0)"))),
        }
    }

    /// Returns the field at position `field`, which exists, for reading.
    fn existing(&self, field: usize) -> FieldView<'_> {
        FieldView::new(&self.layout.fields[field], self.layout.columns[field], self.lease.bytes(), self.samples())
    }

    fn no_field(&self, found: String) -> Error {
        let names: Vec<String> = self.fields().iter().map(|field| format!("`{}`", field.name)).collect();
        Error::invalid("field", format!("{found}: the batch has {}", names.join(", ")))
    }

    /// Returns the bytes of field `field`: its samples consecutively, each in C order, including padding.
    ///
    /// # Panics
    /// If there are not that many fields: [`field_at`](Self::field_at) returns an error for that.
    #[must_use]
    pub fn bytes(&self, field: usize) -> &[u8] {
        self.existing(field).bytes()
    }

    /// Returns the bytes of the sample in row `row` of field `field`, in C order and without padding.
    ///
    /// # Panics
    /// If there are not that many fields or rows.
    #[must_use]
    pub fn sample(&self, field: usize, row: usize) -> &[u8] {
        &self.lease.bytes()[self.layout.columns[field].sample(self.lease.bytes(), row)]
    }

    /// Returns the number of elements of each sample of variable field `field`, by row, or None for a field of fixed
    /// size.
    ///
    /// # Panics
    /// If there are not that many fields.
    #[must_use]
    pub fn lengths(&self, field: usize) -> Option<Vec<usize>> {
        self.existing(field).lengths()
    }

    /// Returns a copy of the elements of field `field`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the field has a different data type.
    ///
    /// # Panics
    /// If there are not that many fields.
    pub fn to_vec<T: Element>(&self, field: usize) -> Result<Vec<T>> {
        let BatchField { name, dtype, .. } = &self.layout.fields[field];
        if *dtype != T::DTYPE {
            return Err(Error::invalid("field", format!("field `{name}` holds {dtype}, not {}", T::DTYPE)));
        }
        Ok(self.bytes(field).chunks_exact(dtype.bytes()).map(T::from_ne_bytes).collect())
    }

    /// Returns the layout and the lease, for a foreign owner of views.
    #[doc(hidden)]
    #[must_use]
    pub fn into_parts(self) -> (BatchLayout, Lease) {
        (self.layout, self.lease)
    }
}
