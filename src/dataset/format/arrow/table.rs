//! [`ArrowTable`]: columns of a table in memory, as tensors of torch's common data types.

use arrow_array::RecordBatch;

use super::column::{Piece, TableColumn};
use crate::dataset::format::block::starts::BlockStarts;
use crate::dataset::{Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema, SizesWriter};

/// The rows of an Arrow table in memory, or in files that other code has mapped. Nothing is copied before it is read.
///
/// Supports only unambiguous data: numbers without nulls, lists of equal length of anything supported, lists of
/// integers of any length, and strings. Integers become int64, and floats float32, as in Hugging Face's datasets.
pub struct ArrowTable {
    columns: Vec<TableColumn>,
    schema: Schema,
    /// Maps rows to batches.
    starts: BlockStarts,
}

/// A column to read: (field name, path to the column, its representation in a sample).
pub(crate) type ColumnPath = (String, Vec<Step>, TableValue);

/// One step on the path to a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The column, or struct member, of this name.
    Part(String),
    /// The item at this index of each list.
    Item(usize),
}

/// How a column is represented in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableValue {
    /// A number, or an array of numbers of the same shape in each row: int64, float32 or bool.
    Numbers,
    /// Any number of bytes.
    Bytes,
    /// The same without trailing zeros, as in NumPy's arrays of bytes and strings.
    BytesWithoutZeros,
    /// Any number of integers, as many as the row's list has: int64.
    Lists,
    /// A one for each of those integers.
    Ones,
}

impl ArrowTable {
    /// Creates a dataset of the columns at `paths` of `batches`. Returns `None` if a column's data is not supported.
    ///
    /// # Errors
    /// Errors of `batches`.
    pub fn new(batches: impl Iterator<Item = Result<RecordBatch>>, paths: &[ColumnPath]) -> Result<Option<Self>> {
        let mut columns: Vec<Option<TableColumn>> = paths.iter().map(|_| None).collect();
        let mut ends: Vec<usize> = Vec::new();
        for batch in batches {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            for (column, (_, path, value)) in columns.iter_mut().zip(paths) {
                let Some((form, piece)) = Piece::of(&batch, path, *value) else { return Ok(None) };
                match column {
                    None => *column = Some(TableColumn { form, pieces: vec![piece] }),
                    Some(column) if column.form == form => column.pieces.push(piece),
                    Some(_) => return Ok(None),
                }
            }
            ends.push(ends.last().copied().unwrap_or(0) + batch.num_rows());
        }
        let Some(columns) = columns.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        let fields =
            paths.iter().zip(&columns).map(|((name, ..), column)| column.form.field(name)).collect::<Vec<Field>>();
        Ok(Some(Self { columns, schema: Schema::new(fields), starts: BlockStarts::new(ends) }))
    }

    fn places(&self, indices: &[usize]) -> Result<Vec<(usize, usize)>> {
        indices.iter().map(|&index| self.starts.place(index)).collect()
    }

    fn refuse(&self, index: usize, field: usize) -> Error {
        let field = self.schema.fields()[field].name().to_owned();
        Error::Sample { index, field, reason: "its offsets are outside the table; the file is damaged".into() }
    }
}

impl Dataset for ArrowTable {
    fn len(&self) -> usize {
        self.starts.samples()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let place = self.starts.place(index)?;
        for (number, column) in self.columns.iter().enumerate() {
            let room = into.field(number);
            match column.form.is_variable() {
                true => column.copy(place, room).ok_or_else(|| self.refuse(index, number))?,
                false => column.gather(&[place], room),
            }
        }
        Ok(())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.schema.is_variable().then_some(self)
    }
}

impl ReadMany for ArrowTable {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let places = self.places(indices)?;
        for (number, column) in self.columns.iter().enumerate() {
            if !column.form.is_variable() {
                column.gather(&places, into.field(number));
                continue;
            }
            for (row, &place) in places.iter().enumerate() {
                let mut sample = into.sample(row);
                column.copy(place, sample.field(number)).ok_or_else(|| self.refuse(indices[row], number))?;
            }
        }
        Ok(())
    }
}

impl VariableSize for ArrowTable {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let places = self.places(indices)?;
        for (number, column) in self.columns.iter().enumerate().filter(|(_, column)| column.form.is_variable()) {
            for (row, &place) in places.iter().enumerate() {
                into.set(row, number, column.elements(place).ok_or_else(|| self.refuse(indices[row], number))?);
            }
        }
        Ok(())
    }
}
