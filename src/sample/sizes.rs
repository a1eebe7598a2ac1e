//! [`Sizes`]: the sizes of a batch's samples, known before the samples are read.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::Schema;

/// The number of samples in a batch, and the number of elements of each in every variable field.
///
/// # Example
/// ```
/// use sluicegate::{DType, Field, Schema, Sizes};
/// let schema = Schema::new([Field::new("id", DType::Int64, []), Field::variable("text", DType::UInt8, [])]);
/// let mut sizes = Sizes::new(&schema, 2);
/// sizes.writer().set(0, 1, 5);
/// assert_eq!((sizes.elements(0), sizes.elements(1)), (None, Some([5, 0].as_slice())));
/// ```
pub struct Sizes {
    samples: usize,
    /// By field: the position of its numbers among those of the variable fields. Empty if no field is variable.
    places: Vec<Option<usize>>,
    /// For each variable field in turn, by row.
    elements: Vec<usize>,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Sizes {
    /// Returns the sizes of `samples` samples without variable fields.
    #[must_use]
    pub fn fixed(samples: usize) -> Self {
        Self { samples, places: Vec::new(), elements: Vec::new(), kept: Vec::new() }
    }

    /// Returns the sizes of `samples` samples of `schema`, whose variable fields have no elements yet.
    #[must_use]
    pub fn new(schema: &Schema, samples: usize) -> Self {
        let mut variable = 0;
        let places = schema.fields().iter().map(|field| {
            variable += usize::from(field.is_variable());
            field.is_variable().then(|| variable - 1)
        });
        let places = places.collect();
        Self { samples, places, elements: vec![0; variable * samples], kept: Vec::new() }
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Returns the number of elements in variable field `field`, by row, or None for a field of fixed size.
    #[must_use]
    pub fn elements(&self, field: usize) -> Option<&[usize]> {
        let place = self.places.get(field).copied().flatten()?;
        Some(&self.elements[place * self.samples..][..self.samples])
    }

    /// Returns a writer for the sizes.
    pub fn writer(&mut self) -> SizesWriter<'_> {
        let Self { samples, places, elements, kept } = self;
        SizesWriter { samples: *samples, places, elements, kept, rows: 0..*samples }
    }
}

impl fmt::Debug for Sizes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, places, elements, .. } = self;
        formatter
            .debug_struct("Sizes")
            .field("samples", samples)
            .field("places", places)
            .field("elements", elements)
            .finish_non_exhaustive()
    }
}

/// Room for the sizes of some samples in some fields: the window that corresponds to the
/// [`BatchWriter`](super::BatchWriter) of the same rows and fields.
pub struct SizesWriter<'a> {
    samples: usize,
    places: &'a [Option<usize>],
    elements: &'a mut [usize],
    kept: &'a mut Vec<Arc<dyn Any + Send + Sync>>,
    rows: Range<usize>,
}

impl SizesWriter<'_> {
    /// Returns the number of samples.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Sets the number of `elements` of the sample in row `row` in variable field `field`.
    ///
    /// # Panics
    /// If there is no such row, or the field has a fixed size.
    pub fn set(&mut self, row: usize, field: usize, elements: usize) {
        assert!(row < self.rows.len(), "row {row} of a batch of {}", self.rows.len());
        self.field(field)[row] = elements;
    }

    /// Returns the sizes in variable field `field`, by row, in elements.
    ///
    /// # Panics
    /// If the field has a fixed size.
    pub fn field(&mut self, field: usize) -> &mut [usize] {
        let place = self.places[field].expect("only variable fields have sizes");
        &mut self.elements[place * self.samples..][self.rows.clone()]
    }

    /// Keeps `block` until the batch is read, so that data decoded to learn its sizes need not be decoded again.
    pub fn keep(&mut self, block: Arc<dyn Any + Send + Sync>) {
        self.kept.push(block);
    }

    /// Returns the window on some of the rows.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn rows_mut(&mut self, rows: Range<usize>) -> SizesWriter<'_> {
        assert!(rows.end <= self.rows.len(), "rows {rows:?} of a batch of {}", self.rows.len());
        let rows = self.rows.start + rows.start..self.rows.start + rows.end;
        SizesWriter { samples: self.samples, places: self.places, elements: self.elements, kept: self.kept, rows }
    }

    /// Returns the window on some of the fields.
    ///
    /// # Panics
    /// If there are no such fields.
    pub fn fields_mut(&mut self, fields: Range<usize>) -> SizesWriter<'_> {
        SizesWriter {
            samples: self.samples,
            places: &self.places[fields],
            elements: self.elements,
            kept: self.kept,
            rows: self.rows.clone(),
        }
    }
}
