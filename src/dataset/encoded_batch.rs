//! [`EncodedBatch`]: encoded samples of any size, read for further processing.

use super::{Dataset, read_batch, sizes_of};
use crate::{BatchWriter, Column, Error, Result, Sizes};

/// Largest size of one sample in bytes: sizes come from files, and a damaged file may claim anything.
const LARGEST_SAMPLE: usize = 4 << 30;

/// Encoded samples of any size, read for further processing.
pub(super) struct EncodedBatch {
    bytes: Vec<u8>,
    columns: Vec<Column>,
}

impl EncodedBatch {
    /// Reads the samples of `dataset` at `indices`, reusing the buffer `bytes`.
    pub(super) fn read(dataset: &dyn Dataset, indices: &[usize], mut bytes: Vec<u8>) -> Result<Self> {
        let schema = dataset.schema();
        let sizes = match schema.is_variable() {
            true => sizes_of(dataset, indices)?,
            false => Sizes::fixed(indices.len()),
        };
        let (mut columns, mut end) = (Vec::with_capacity(schema.fields().len()), 0_usize);
        for (number, field) in schema.fields().iter().enumerate() {
            let start = end.next_multiple_of(size_of::<i64>());
            let Some(elements) = sizes.elements(number) else {
                columns.push(Column::Fixed { offset: start, bytes_per_sample: field.bytes() });
                end = start + field.bytes() * indices.len();
                continue;
            };
            let offset = start + size_of::<i64>() * (indices.len() + 1);
            let all =
                elements.iter().fold(0_usize, |all, &size| all.saturating_add(size)).saturating_mul(field.bytes());
            if all > LARGEST_SAMPLE.saturating_mul(indices.len()) {
                let reason =
                    format!("the samples of the batch have {all} bytes in total; the file or its index is damaged");
                return Err(Error::Sample { index: indices[0], field: field.name().to_owned(), reason });
            }
            columns.push(Column::Variable { offset, bytes_per_element: field.bytes(), offsets: start });
            end = offset + all;
        }
        bytes.resize(end, 0);
        for (number, column) in columns.iter().enumerate() {
            let (Column::Variable { offsets, .. }, Some(elements)) = (column, sizes.elements(number)) else { continue };
            let mut at = 0_i64;
            let room = bytes[*offsets..].as_chunks_mut::<{ size_of::<i64>() }>().0;
            for (place, room) in room.iter_mut().take(indices.len() + 1).enumerate() {
                *room = at.to_ne_bytes();
                at += elements.get(place).map_or(0, |&size| size as i64);
            }
        }
        read_batch(dataset, indices, &mut BatchWriter::new(&mut bytes, &columns, indices.len()))?;
        Ok(Self { bytes, columns })
    }

    /// The bytes of field `field` of the sample in row `row`.
    pub(super) fn field(&self, row: usize, field: usize) -> &[u8] {
        &self.bytes[self.columns[field].sample(&self.bytes, row)]
    }

    /// Returns the buffer, for reuse.
    pub(super) fn into_room(self) -> Vec<u8> {
        self.bytes
    }
}
