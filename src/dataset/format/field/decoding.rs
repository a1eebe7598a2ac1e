//! [`Decoding`]: a dataset of parsed samples, whose sizes are known only after parsing.

use std::ops::Range;
use std::sync::Arc;

use super::typed_field::TypedField;
use crate::dataset::format::block::batch_key::BatchKey;
use crate::dataset::format::block::cache::BlockCache;
use crate::dataset::format::index::broken::{Broken, is_damage};
use crate::dataset::{Blocks, Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter};

/// The number of samples per task when searching for broken samples.
const PART: usize = 4096;
/// The number of samples that such a task decodes at once.
const TOGETHER: usize = 64;

/// Turns samples into the bytes of their fields.
pub(crate) trait Decode: Send + Sync {
    /// The number of samples.
    fn len(&self) -> usize;

    /// The fields that it fills.
    fn fields(&self) -> &[TypedField];

    /// Appends the samples at `indices`, in this order, to `into`.
    ///
    /// # Errors
    /// As [`Dataset::read`], for any of the indices.
    fn decode(&self, indices: &[usize], into: &mut Decoded) -> Result<()>;

    /// Adds details to an error of `decode` that are too slow to find for errors that are never shown.
    fn explain(&self, error: Error) -> Error {
        error
    }

    /// Splits all samples, in order, into ranges that are stored together, for [`check_part`](Self::check_part).
    fn parts(&self) -> Vec<Range<usize>> {
        (0..self.len()).step_by(PART).map(|start| start..(start + PART).min(self.len())).collect()
    }

    /// Fails if no sample of part `part` can be decoded.
    ///
    /// # Errors
    /// As `decode`, for any of its samples.
    fn check_part(&self, _part: usize) -> Result<()> {
        Ok(())
    }

    /// As [`Dataset::as_blocks`].
    fn as_blocks(&self) -> Option<&dyn Blocks> {
        None
    }

    /// As [`Dataset::origin`], for all fields of sample `index`.
    fn origin(&self, _index: usize) -> Option<String> {
        None
    }
}

/// The fields of some samples, as bytes.
pub(crate) struct Decoded {
    columns: Vec<DecodedColumn>,
}

/// The bytes of one field, sample after sample.
#[derive(Default)]
pub(crate) struct DecodedColumn {
    pub(crate) bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl DecodedColumn {
    /// The start of the sample that is being filled.
    pub(crate) fn start(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The number of bytes in the sample that is being filled.
    pub(crate) fn filled(&self) -> usize {
        self.bytes.len() - self.start()
    }

    /// Removes the bytes of the sample that is being filled.
    pub(crate) fn clear_sample(&mut self) {
        let start = self.start();
        self.bytes.truncate(start);
    }

    fn sample(&self, row: usize) -> &[u8] {
        &self.bytes[if row == 0 { 0 } else { self.ends[row - 1] }..self.ends[row]]
    }
}

impl Decoded {
    pub(crate) fn new(fields: usize, samples: usize) -> Self {
        let column = || DecodedColumn { bytes: Vec::new(), ends: Vec::with_capacity(samples) };
        Self { columns: (0..fields).map(|_| column()).collect() }
    }

    /// Returns an empty one, with capacity for the samples of this one.
    pub(crate) fn emptied(&self) -> Self {
        let emptied = |column: &DecodedColumn| DecodedColumn {
            bytes: Vec::with_capacity(column.bytes.len()),
            ends: Vec::with_capacity(column.ends.len()),
        };
        Self { columns: self.columns.iter().map(emptied).collect() }
    }

    pub(crate) fn column(&mut self, field: usize) -> &mut DecodedColumn {
        &mut self.columns[field]
    }

    /// Ends a sample; fails, with the reason, if a field has the wrong number of bytes.
    pub(crate) fn end_sample(&mut self, fields: &[TypedField]) -> std::result::Result<(), String> {
        for (column, typed) in self.columns.iter_mut().zip(fields) {
            let (filled, size, field) = (column.filled(), typed.field().bytes(), typed.field());
            let fits = if field.is_variable() { size == 0 || filled.is_multiple_of(size) } else { filled == size };
            if !fits {
                let unit = field.dtype().bytes();
                return Err(format!("field `{}`: expected {field}, got {} values", field.name(), filled / unit));
            }
            column.ends.push(column.bytes.len());
        }
        Ok(())
    }

    /// Removes all samples.
    pub(crate) fn clear(&mut self) {
        for column in &mut self.columns {
            column.bytes.clear();
            column.ends.clear();
        }
    }

    /// Removes the sample that is being filled.
    pub(crate) fn abandon_sample(&mut self) {
        // If `end_sample` failed, the sample may have ended in some of the columns.
        let ended = self.columns.iter().map(|column| column.ends.len()).min().unwrap_or(0);
        for column in &mut self.columns {
            column.ends.truncate(ended);
            column.clear_sample();
        }
    }

    /// The number of bytes in the sample that is being filled.
    pub(crate) fn filled(&self) -> usize {
        self.columns.iter().map(DecodedColumn::filled).sum()
    }

    /// The bytes of field `field` of the sample in row `row`.
    pub(crate) fn value(&self, field: usize, row: usize) -> &[u8] {
        self.columns[field].sample(row)
    }

    fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.bytes.len() + column.ends.len() * 8).sum()
    }
}

/// A dataset of the samples that `D` decodes. A batch is decoded for its sizes, and kept until it has been read.
pub(crate) struct Decoding<D> {
    decoder: D,
    schema: Schema,
    /// Keyed by the indices of a batch; entries live only while the batch is read.
    batches: BlockCache<BatchKey, Decoded>,
}

impl<D: Decode> Decoding<D> {
    pub(crate) fn new(decoder: D) -> Self {
        let fields: Vec<_> = decoder.fields().iter().map(|typed| typed.field().clone()).collect();
        Self { decoder, schema: Schema::new(fields), batches: BlockCache::new(0) }
    }

    pub(crate) fn decoder(&self) -> &D {
        &self.decoder
    }

    pub(crate) fn into_decoder(self) -> D {
        self.decoder
    }

    fn decode(&self, indices: &[usize]) -> Result<Decoded> {
        let mut decoded = Decoded::new(self.schema.fields().len(), indices.len());
        self.decoder.decode(indices, &mut decoded)?;
        Ok(decoded)
    }

    fn decode_or_explain(&self, indices: &[usize]) -> Result<Decoded> {
        self.decode(indices).map_err(|error| self.decoder.explain(error))
    }

    /// Returns the samples that can't be decoded.
    ///
    /// # Errors
    /// A file can't be read.
    pub(crate) fn find_broken(&self) -> Result<Broken> {
        let parts: Vec<(usize, Range<usize>)> = self.decoder.parts().into_iter().enumerate().collect();
        Broken::find(&parts, |(number, part)| self.broken_in(*number, part.clone()))
    }

    fn broken_in(&self, number: usize, part: Range<usize>) -> Result<Broken> {
        let mut broken = Broken::default();
        match self.decoder.check_part(number) {
            Err(error) if is_damage(&error) => {
                broken.push(part, || error);
                return Ok(broken);
            }
            checked => checked?,
        }
        let indices: Vec<usize> = part.collect();
        for some in indices.chunks(TOGETHER) {
            match self.decode(some) {
                Err(error) if is_damage(&error) => {}
                decoded => {
                    decoded?;
                    continue;
                }
            }
            // The error names only one of them.
            for &index in some {
                match self.decode(&[index]) {
                    Err(error) if is_damage(&error) => broken.push(index..index + 1, || error),
                    decoded => drop(decoded?),
                }
            }
        }
        Ok(broken)
    }

    fn batch(&self, indices: &[usize]) -> Result<Arc<Decoded>> {
        self.batches.get(&BatchKey::of(indices), || {
            let decoded = self.decode_or_explain(indices)?;
            let bytes = decoded.bytes();
            Ok((decoded, bytes.max(1)))
        })
    }
}

impl<D: Decode> Dataset for Decoding<D> {
    fn len(&self) -> usize {
        self.decoder.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let decoded = self.batch(&[index])?;
        for (field, column) in decoded.columns.iter().enumerate() {
            into.field(field).copy_from_slice(column.sample(0));
        }
        Ok(())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.schema.is_variable().then_some(self)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        self.decoder.as_blocks()
    }

    fn origin(&self, index: usize, _field: usize) -> Option<String> {
        self.decoder.origin(index)
    }
}

impl<D: Decode> ReadMany for Decoding<D> {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let decoded = match self.schema.is_variable() {
            true => self.batch(indices)?,
            false => Arc::new(self.decode_or_explain(indices)?),
        };
        for (number, (column, field)) in decoded.columns.iter().zip(self.schema.fields()).enumerate() {
            if !field.is_variable() {
                into.field(number).copy_from_slice(&column.bytes);
                continue;
            }
            for row in 0..indices.len() {
                into.sample(row).field(number).copy_from_slice(column.sample(row));
            }
        }
        Ok(())
    }
}

impl<D: Decode> VariableSize for Decoding<D> {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let decoded = self.batch(indices)?;
        for (number, (column, field)) in decoded.columns.iter().zip(self.schema.fields()).enumerate() {
            if field.is_variable() {
                for row in 0..indices.len() {
                    into.set(row, number, column.sample(row).len().checked_div(field.bytes()).unwrap_or(0));
                }
            }
        }
        into.keep(decoded);
        Ok(())
    }
}
