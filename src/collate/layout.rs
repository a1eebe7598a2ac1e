//! [`BatchLayout`]: where the fields of a batch are in its slot.

use crate::{Column, DType, Error, Field, Result, Schema, Sizes};

/// Alignment of fields in bytes, the same as of tensors that torch allocates.
const ALIGNMENT: usize = 64;

/// Where the fields of a batch are in its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchLayout {
    /// The number of samples.
    pub samples: usize,
    /// The size of the slot, in bytes.
    pub bytes: usize,
    /// How each field is written.
    pub columns: Vec<Column>,
    /// The name, data type, and shape of each field in the batch.
    pub fields: Vec<BatchField>,
    /// The fields with [`Column::Padded`], each with the bytes of one padding element.
    pub padding: Vec<(usize, Vec<u8>)>,
}

/// One field of a batch: a dense array in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchField {
    /// The name of the field in the schema.
    pub name: String,
    /// The data type of the elements.
    pub dtype: DType,
    /// The shape. The first axis counts the samples, or, with [`Column::Variable`], the elements of all samples. With
    /// [`Column::Padded`] the second axis counts the elements of the longest sample.
    pub shape: Vec<usize>,
}

impl BatchLayout {
    /// Returns a layout of `samples` samples without fields.
    pub(super) fn with_room(samples: usize, fields: usize) -> Self {
        let (columns, fields) = (Vec::with_capacity(fields), Vec::with_capacity(fields));
        Self { samples, bytes: 0, columns, fields, padding: Vec::new() }
    }

    /// Adds room for `count` items of `bytes` each, and returns its offset.
    #[inline]
    pub(super) fn add(&mut self, field: &Field, count: usize, bytes: usize) -> Result<usize> {
        let offset = self.bytes;
        self.bytes = bytes
            .checked_mul(count)
            .and_then(|size| offset.checked_add(size)?.checked_next_multiple_of(ALIGNMENT))
            .ok_or_else(|| Error::InvalidArgument {
                argument: "batch_size",
                reason: format!("{} samples of {field} have more bytes than can be addressed", self.samples),
            })?;
        Ok(offset)
    }

    /// Adds the description of `field` in the batch.
    #[inline]
    pub(super) fn push(&mut self, field: &Field, column: Column, axes: &[usize]) {
        self.columns.push(column);
        let mut shape = Vec::with_capacity(field.shape().len() + axes.len());
        shape.extend(axes);
        shape.extend(field.shape());
        self.fields.push(BatchField { name: field.name().to_owned(), dtype: field.dtype(), shape });
    }

    /// Writes the offsets and lengths of the samples, before the samples themselves are written.
    pub(crate) fn write_sizes(&self, sizes: &Sizes, bytes: &mut [u8]) {
        for (field, column) in self.columns.iter().enumerate() {
            let elements = sizes.elements(field).unwrap_or_default();
            match *column {
                Column::Fixed { .. } => {}
                Column::Variable { offsets, .. } => {
                    let ends = elements.iter().scan(0, |end, &elements| {
                        *end += elements;
                        Some(*end)
                    });
                    write(&mut bytes[offsets..], std::iter::once(0).chain(ends));
                }
                Column::Padded { lengths, .. } => write(&mut bytes[lengths..], elements.iter().copied()),
            }
        }
    }

    /// Fills the padding of padded samples.
    pub(crate) fn pad(&self, bytes: &mut [u8]) {
        for (field, fill) in &self.padding {
            let column = self.columns[*field];
            let Column::Padded { offset, bytes_per_sample, at_end, .. } = column else { continue };
            for row in 0..self.samples {
                let (sample, start) = (column.sample(bytes, row), offset + row * bytes_per_sample);
                let rest = if at_end { start..sample.start } else { sample.end..start + bytes_per_sample };
                let rest = &mut bytes[rest];
                match fill.iter().all(|byte| *byte == fill[0]) {
                    true => rest.fill(fill.first().copied().unwrap_or_default()),
                    false => rest.chunks_exact_mut(fill.len()).for_each(|element| element.copy_from_slice(fill)),
                }
            }
        }
    }
}

fn write(bytes: &mut [u8], numbers: impl Iterator<Item = usize>) {
    for (number, bytes) in numbers.zip(bytes.as_chunks_mut().0) {
        *bytes = (number as i64).to_ne_bytes();
    }
}

/// Returns the number of elements of `field` in all samples together, and in the longest; `sizes` must contain the
/// field.
pub(super) fn elements_of(schema: &Schema, field: usize, sizes: &Sizes) -> Result<(usize, usize)> {
    let unknown = |reason: String| Error::invalid("sizes", reason);
    let field_name = &schema.fields()[field];
    let elements = sizes
        .elements(field)
        .ok_or_else(|| unknown(format!("{field_name} is variable, but the sizes of its samples are missing")))?;
    let total = elements.iter().try_fold(0_usize, |total, &elements| total.checked_add(elements));
    let total = total.filter(|&total| i64::try_from(total).is_ok());
    let total = total.ok_or_else(|| unknown(format!("{field_name} has more elements than can be counted")))?;
    Ok((total, elements.iter().copied().max().unwrap_or(0)))
}
