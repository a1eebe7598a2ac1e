//! [`ArrowTable`]: columns of a table in memory, as tensors of the data types that torch works with.

use arrow_array::RecordBatch;

use super::column::{Piece, TableColumn};
use crate::dataset::format::block::starts::BlockStarts;
use crate::dataset::{Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema, SizesWriter};

/// The rows of an Arrow table whose values lie in memory, or in files that other code has mapped: nothing of it is
/// copied before it is read.
///
/// It holds what has one meaning alone: numbers without a null, lists of them, or of anything, that are all as long as each other, lists of
/// integers of any length, and texts. Integers become int64, floats float32, as Hugging Face's datasets make them. Any other table is not for it.
pub struct ArrowTable {
    columns: Vec<TableColumn>,
    schema: Schema,
    /// Which batch a row is in.
    starts: BlockStarts,
}

/// What is to be read of a table: (name of the field, the path to its column, what it is in a sample).
pub(crate) type ColumnPath = (String, Vec<Step>, TableValue);

/// One step on the path to a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The column of that name, or part of structs.
    Part(String),
    /// The item at this place of each list.
    Item(usize),
}

/// What a column is in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableValue {
    /// A number, or as many numbers in each row: int64, float32 or bool.
    Numbers,
    /// Bytes of any number.
    Bytes,
    /// The same without the zeros at its end, as NumPy's arrays of bytes and texts have it.
    BytesWithoutZeros,
    /// Integers, in each row as many as its list has: int64.
    Lists,
    /// A one for each of those.
    Ones,
}

impl ArrowTable {
    /// The columns at `paths` of the table that `batches` make up; nothing when one of them is not as it must be.
    ///
    /// # Errors
    /// Those of `batches`.
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
        Error::Sample { index, field, reason: "its offsets lie outside of the table: it is damaged".into() }
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
