//! [`CsvFields`]: which columns of a CSV file become fields of a sample.

use super::row::Cells;
use crate::dataset::format::field::decoding::Decoded;
use crate::dataset::format::field::number::Number;
use crate::dataset::format::field::typed_field::{Content, TypedField};
use crate::{Error, Result};

/// The most columns that a file may have.
const MOST_COLUMNS: usize = 1 << 16;

/// The columns of a file, and the fields that some of them become.
pub(super) struct CsvFields {
    /// The fields, in order.
    fields: Vec<TypedField>,
    /// Per column: the number of its field, if it has one.
    columns: Vec<Option<usize>>,
    names: Vec<String>,
    delimiter: u8,
}

impl CsvFields {
    /// Matches these fields with the names of the columns.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a column that does not exist, and fields that are not scalars.
    pub(super) fn new(names: Vec<String>, fields: Vec<TypedField>, delimiter: u8) -> Result<Self> {
        let mut columns = vec![None; names.len()];
        for (number, typed) in fields.iter().enumerate() {
            let invalid = |reason| Err(Error::invalid("fields", reason));
            let field = typed.field();
            let Some(column) = names.iter().position(|name| name == field.name()) else {
                let first: Vec<_> = names.iter().take(20).collect();
                return invalid(format!("there is no column `{}`; the columns are {first:?}", field.name()));
            };
            let is_list = typed.content() == Content::Number && (field.is_variable() || !field.shape().is_empty());
            if is_list || typed.content().is_list() {
                return invalid(format!("{field}: a cell holds only one value"));
            }
            columns[column] = Some(number);
        }
        Ok(Self { fields, columns, names, delimiter })
    }

    /// The fields.
    pub(super) fn typed(&self) -> &[TypedField] {
        &self.fields
    }

    /// The names of all columns.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Fills a sample; an error has the offset in the row.
    pub(super) fn fill(&self, row: &[u8], into: &mut Decoded) -> std::result::Result<(), (usize, String)> {
        let mut count = 0;
        for (column, cell) in Cells::new(row, self.delimiter).enumerate() {
            let (place, cell) = cell?;
            if let Some(Some(number)) = self.columns.get(column) {
                let typed = &self.fields[*number];
                let refuse = |reason| (place, format!("column {} (`{}`): {reason}", column + 1, typed.field().name()));
                let bytes = &mut into.column(*number).bytes;
                match (cell.is_empty(), typed.default(), typed.content()) {
                    (true, Some(default), _) => bytes.extend(default),
                    (_, _, Content::Bytes) => bytes.extend(&*cell),
                    (is_empty, _, content) => {
                        let text = std::str::from_utf8(&cell).map_err(|_| refuse("it is not UTF-8 text".into()))?;
                        if content == Content::Number {
                            let dtype = typed.field().dtype();
                            let number = Number::parse(text, dtype).ok_or_else(|| {
                                let hint = if is_empty { ", and it has no default" } else { "" };
                                refuse(format!("{:?} is not a valid {dtype}{hint}", shortened(text)))
                            })?;
                            number.push(dtype, bytes).map_err(refuse)?;
                        } else {
                            bytes.extend(text.as_bytes());
                        }
                    }
                }
            }
            count = column + 1;
        }
        if count == self.names.len() {
            return Ok(());
        }
        Err((0, format!("the row has {count} cells, but {} are expected", self.names.len())))
    }
}

/// Returns the names in the header `row`; an error has the offset in it.
pub(super) fn names_of(row: &[u8], delimiter: u8) -> std::result::Result<Vec<String>, (usize, String)> {
    let mut names = Vec::new();
    for cell in Cells::new(row, delimiter) {
        let (place, cell) = cell?;
        let name = String::from_utf8(cell.into_owned())
            .map_err(|_| (place, "the name of a column is not UTF-8 text".to_owned()))?;
        if names.len() >= MOST_COLUMNS {
            return Err((place, format!("the header has more than {MOST_COLUMNS} columns")));
        }
        names.push(name);
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err((0, format!("two columns are named `{}`", pair[0])));
    }
    Ok(names)
}

/// Shortens a text for an error.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(end, _)| &text[..end])
}
