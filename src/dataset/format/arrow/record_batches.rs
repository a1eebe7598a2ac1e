//! [`RecordBatches`]: the rows of Arrow record batches in memory.

use arrow_array::RecordBatch;

use crate::dataset::format::block::starts::{BlockStarts, FoundBlocks};
use crate::dataset::format::columnar::{Block, ColumnKind, ColumnarOptions, Columns, Nesting, Picks, Places};
use crate::dataset::{Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter};

/// The rows of Arrow record batches in memory, one batch after the other: results of another library, or data from
/// sources that this crate can't read. Columns become fields by the rules of [`Arrow`](crate::Arrow).
///
/// Numbers are used in place; values that need conversion are converted once, when the dataset is created.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float32Array, RecordBatch};
/// use sluicegate::{ColumnarOptions, DataLoader, RecordBatches};
///
/// let points = |values: &[f32]| Arc::new(Float32Array::from(values.to_vec())) as ArrayRef;
/// let first = RecordBatch::try_from_iter([("x", points(&[1.0, 2.0]))])?;
/// let second = RecordBatch::try_from_iter([("x", points(&[3.0]))])?;
///
/// let dataset = RecordBatches::new([first, second], &ColumnarOptions::default())?;
/// let batch = DataLoader::builder(dataset).batch_size(3).build()?.epoch(0)?.next().expect("three rows")?;
/// assert_eq!(batch.field("x")?.view::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordBatches {
    blocks: Vec<Block>,
    /// Maps rows to batches.
    starts: BlockStarts,
    columns: Columns,
}

impl RecordBatches {
    /// Creates a dataset of the rows of `batches`, with the columns that `options` request.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is no batch, for columns that do not exist or can't be read, and for
    /// batches whose columns differ.
    pub fn new(batches: impl IntoIterator<Item = RecordBatch>, options: &ColumnarOptions) -> Result<Self> {
        let mut batches = batches.into_iter().peekable();
        let none = || Error::invalid("batches", "expected at least one batch, whose schema is used for all, got none");
        let schema = batches.peek().ok_or_else(none)?.schema();
        let columns = Columns::new(&schema, options).map_err(|reason| Error::invalid("columns", reason))?;
        let (mut blocks, mut ends, mut rows) = (Vec::new(), Vec::new(), 0);
        for (number, batch) in batches.enumerate() {
            let refuse = |reason| Error::invalid("batches", format!("batch {number}: {reason}"));
            if batch.schema_ref() != &schema {
                let others = Columns::new(batch.schema_ref(), options).map_err(refuse)?;
                if let Some((column, expected, found)) = columns.difference(&others) {
                    return Err(refuse(format!("column `{column}` is {found}, but {expected} in batch 0")));
                }
            }
            blocks.push(Block::new(&columns, &batch).map_err(refuse)?);
            rows += batch.num_rows();
            ends.push(rows);
        }
        Ok(Self { blocks, starts: BlockStarts::new(ends), columns })
    }

    /// Returns the kind of each field.
    #[doc(hidden)]
    #[must_use]
    pub fn kinds(&self) -> &[ColumnKind] {
        self.columns.kinds()
    }

    /// Returns how the fields are nested in a sample.
    #[doc(hidden)]
    #[must_use]
    pub fn nesting(&self) -> &Nesting {
        self.columns.nesting()
    }

    /// Returns the batches of these rows; and for each row, the index of its batch among them, and its row there.
    fn find(&self, indices: &[usize]) -> Result<(Vec<&Block>, Places)> {
        let FoundBlocks { blocks, of_rows, .. } = self.starts.find(indices)?;
        let first: Vec<usize> = blocks.iter().map(|&batch| self.starts.samples_of(batch).start).collect();
        let rows = indices.iter().zip(&of_rows).map(|(&index, &of)| (of, (index - first[of as usize]) as u32));
        let places = Places::new(blocks.len(), rows.collect());
        Ok((blocks.into_iter().map(|batch| &self.blocks[batch]).collect(), places))
    }

    fn origin_of(&self, index: usize) -> Result<String> {
        let batch = self.starts.of_sample(index)?;
        Ok(format!("row {} of batch {batch}", index - self.starts.samples_of(batch).start))
    }
}

impl Dataset for RecordBatches {
    fn len(&self) -> usize {
        self.starts.samples()
    }

    fn schema(&self) -> &Schema {
        self.columns.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.read_many(&[index], &mut into.as_batch())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.schema().is_variable().then_some(self)
    }

    fn origin(&self, index: usize, _field: usize) -> Option<String> {
        self.origin_of(index).ok()
    }
}

impl ReadMany for RecordBatches {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let (blocks, places) = self.find(indices)?;
        Picks::new(blocks, &places).write(&self.columns, into).map_err(|refusal| {
            let index = indices[refusal.row];
            let origin = self.origin_of(index).unwrap_or_else(|error| error.to_string());
            Error::Sample { index, field: refusal.column, reason: format!("{origin}: {}", refusal.reason) }
        })
    }
}

impl VariableSize for RecordBatches {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let (blocks, places) = self.find(indices)?;
        Picks::new(blocks, &places).sizes(&self.columns, into);
        Ok(())
    }
}
