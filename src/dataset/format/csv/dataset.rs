//! [`Csv`]: files of rows of cells, separated by a delimiter.

use std::path::PathBuf;

use super::fields::{CsvFields, names_of};
use super::row::Cells;
use super::scan::{check_rows, find_rows, first_row};
use super::types::Inference;
use crate::dataset::format::field::decoding::{Decode, Decoded, Decoding};
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::text_file::{refuse_line, with_line};
use crate::dataset::format::index::broken::{Broken, is_damage};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::spans::Spans;
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::dataset::forward_dataset::forward_dataset;
use crate::{Error, Result};

/// The number of rows from which types are inferred.
pub(crate) const INFERRED_FROM: usize = 1000;

/// Where the names of columns come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvHeader {
    /// The first row of each file, the same in all files.
    FirstRow,
    /// There are none: columns are called by their numbers, from `0` on.
    None,
}

/// CSV files, one after the other: a sample is a row, a field is a column.
///
/// Cells may be quoted, and then contain delimiters, line feeds and doubled quotes. Rows end in `\n`, `\r\n`, or `\r`;
/// empty lines are left out, and a byte order mark is skipped. One scan, with files in parallel, finds the rows; for
/// files of 4 MiB and more, the result is kept in an index.
///
/// Source: RFC 4180.
///
/// # Example
/// ```
/// use sluicegate::{Csv, CsvHeader, Dataset};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # std::fs::write(&path, "name,size\n\"a, b\",1\nc,2\n").unwrap();
/// let rows = Csv::open(vec![path.to_path_buf()], None, &[], CsvHeader::FirstRow, b',', None).unwrap();
/// assert_eq!((rows.len(), rows.schema().to_string().as_str()), (2, "(name: uint8[*], size: int64[])"));
/// ```
pub struct Csv {
    decoding: Decoding<Rows>,
}

struct Rows {
    spans: Spans,
    fields: CsvFields,
}

impl Csv {
    /// Opens the files at `paths`, with the columns that `fields` names, or all of them. The index is kept in
    /// `index_folder`, or next to the first file (in the user's cache if that isn't possible).
    ///
    /// Without `fields`, types are inferred from the first 1,000 rows: `int64` if all cells are integers, `float64` if
    /// all are numbers, and string otherwise. Cells may be empty in a column with an entry in `defaults`, which gives
    /// the text to use for them.
    ///
    /// # Errors
    /// [`Error::Io`] if a file can't be read; [`Error::Format`] for quotes that are not closed, or a header that
    /// differs from that of the first file; [`Error::InvalidArgument`] for a column that does not exist or occurs
    /// twice, fields that are not scalars, and an invalid delimiter.
    pub fn open(
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedField>>,
        defaults: &[(String, String)],
        header: CsvHeader,
        delimiter: u8,
        index_folder: Option<PathBuf>,
    ) -> Result<Self> {
        Self::open_with(paths, fields, defaults, (header, delimiter), index_folder, Damages::Refuse)
    }

    /// The same without broken rows, what follows a quote that is not closed, and files in UTF-16. This reads all rows
    /// once.
    ///
    /// # Errors
    /// As [`open`](Self::open), but [`Error::Format`] only for a header that differs from that of the first file.
    pub fn open_whole(
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedField>>,
        defaults: &[(String, String)],
        header: CsvHeader,
        delimiter: u8,
        index_folder: Option<PathBuf>,
    ) -> Result<WholeSamples<Self>> {
        let folder = index_folder.clone();
        let rows = Self::open_with(paths, fields, defaults, (header, delimiter), folder, Damages::LeaveOut)?;
        let Rows { spans, fields } = rows.decoding.decoder();
        let (parameters, files) = (format!("{delimiter} {header:?} {:?}", fields.typed()), spans.pool().shared_files());
        WholeSamples::open(rows, ("csv 2", &parameters), &files, index_folder, |rows| {
            let mut broken = rows.decoding.find_broken()?;
            unread_rests(rows.decoding.decoder().spans.pool(), delimiter, &mut broken)?;
            Ok(broken)
        })
    }

    fn open_with(
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedField>>,
        defaults: &[(String, String)],
        (header, delimiter): (CsvHeader, u8),
        index_folder: Option<PathBuf>,
        damages: Damages,
    ) -> Result<Self> {
        check_delimiter(delimiter)?;
        let leave_out = if damages == Damages::Refuse { "" } else { " leave out" };
        let parameters = format!("{delimiter} {header:?}{leave_out}");
        let spans = Spans::open(paths, ("csv 2", &parameters), index_folder, |pool| {
            let mut rows = find_rows(pool, delimiter, damages)?;
            if header == CsvHeader::FirstRow {
                rows.iter_mut().for_each(|rows| drop(rows.splice(..1.min(rows.len()), [])));
            }
            Ok(rows)
        })?;
        let names = match header {
            CsvHeader::FirstRow => names_of_all(spans.pool(), delimiter, damages)?,
            CsvHeader::None => numbers(&spans, delimiter, damages)?,
        };
        let fields = match fields {
            Some(fields) => fields,
            None => infer(&spans, &names, defaults, delimiter, damages)?,
        };
        let file = spans.pool().files().files().first().map(|file| file.path.display().to_string()).unwrap_or_default();
        let fields = CsvFields::new(names, fields, delimiter).map_err(|error| match error {
            Error::InvalidArgument { argument, reason } => Error::invalid(argument, format!("{file}: {reason}")),
            other => other,
        })?;
        Ok(Self { decoding: Decoding::new(Rows { spans, fields }) })
    }

    /// The fields of a sample, and what they hold.
    #[must_use]
    pub fn fields(&self) -> &[TypedField] {
        self.decoding.decoder().fields.typed()
    }
}

/// Fails if `delimiter` cannot separate cells.
pub(super) fn check_delimiter(delimiter: u8) -> Result<()> {
    if matches!(delimiter, b'"' | b'\r' | b'\n') || !delimiter.is_ascii() {
        let reason =
            format!("expected an ASCII character other than a quote or a line break, got {:?}", char::from(delimiter));
        return Err(Error::invalid("delimiter", reason));
    }
    Ok(())
}

/// Returns the names in the first rows of the files, which must be the same in all files that have rows.
fn names_of_all(pool: &FilePool, delimiter: u8, damages: Damages) -> Result<Vec<String>> {
    let files: Vec<usize> = (0..pool.files().files().len()).collect();
    let found = scan(&files, |&number| {
        let file = pool.file(number)?;
        let row = match first_row(&file, delimiter) {
            // A damaged file has no readable rows either.
            Err(error) if damages == Damages::LeaveOut && is_damage(&error) => None,
            row => row?,
        };
        row.map(|(offset, row)| Ok((number, offset, names_in(&file, offset, &row, delimiter)?))).transpose()
    })?;
    let mut found = found.into_iter().flatten();
    let Some((_, _, names)) = found.next() else { return Ok(Vec::new()) };
    match found.find(|(.., other)| *other != names) {
        Some((number, offset, other)) => {
            let reason = format!("the header is {other:?}, but that of the first file is {names:?}");
            Err(Error::Format { path: pool.files().files()[number].path.clone(), offset, reason })
        }
        None => Ok(names),
    }
}

fn names_in(file: &OpenFile, offset: u64, row: &[u8], delimiter: u8) -> Result<Vec<String>> {
    names_of(row, delimiter).map_err(|(place, reason)| refuse_line(file, offset + place as u64, &reason))
}

/// Returns the numbers of the columns in the first row as names.
fn numbers(spans: &Spans, delimiter: u8, damages: Damages) -> Result<Vec<String>> {
    let looked_at = if damages == Damages::Refuse { 1 } else { INFERRED_FROM };
    let first: Vec<usize> = (0..spans.len().min(looked_at)).collect();
    let mut found = None;
    spans.visit(&first, |file, offset, row| {
        if found.is_some() {
            return Ok(());
        }
        match count_cells(row, delimiter) {
            Ok(count) => found = Some(count),
            Err(_) if damages == Damages::LeaveOut => {}
            Err((place, reason)) => return Err(refuse_line(file, offset + place as u64, &reason)),
        }
        Ok(())
    })?;
    let count = found.unwrap_or(0);
    Ok((0..count).map(|column: usize| column.to_string()).collect())
}

fn count_cells(row: &[u8], delimiter: u8) -> std::result::Result<usize, (usize, String)> {
    Cells::new(row, delimiter).try_fold(0, |count, cell| cell.map(|_| count + 1))
}

/// Adds to `broken` what follows quotes that are not closed, and files without readable rows.
fn unread_rests(pool: &FilePool, delimiter: u8, broken: &mut Broken) -> Result<()> {
    let files: Vec<usize> = (0..pool.files().files().len()).collect();
    let found = scan(&files, |&number| match check_rows(&*pool.file(number)?, delimiter) {
        Err(error) if is_damage(&error) => Ok(Some(error)),
        checked => checked.map(|()| None),
    })?;
    found.iter().flatten().for_each(|error| broken.push_rest(error));
    Ok(())
}

fn infer(
    spans: &Spans,
    names: &[String],
    defaults: &[(String, String)],
    delimiter: u8,
    damages: Damages,
) -> Result<Vec<TypedField>> {
    let mut inference = Inference::new(names, defaults);
    let first: Vec<usize> = (0..spans.len().min(INFERRED_FROM)).collect();
    spans.visit(&first, |file, offset, row| {
        if damages == Damages::LeaveOut && count_cells(row, delimiter).ok() != Some(names.len()) {
            return Ok(());
        }
        let refuse = |(place, reason): (usize, String)| refuse_line(file, offset + place as u64, &reason);
        for (column, cell) in Cells::new(row, delimiter).enumerate() {
            inference.see(column, &cell.map_err(refuse)?.1);
        }
        Ok(())
    })?;
    inference.fields()
}

impl Decode for Rows {
    fn len(&self) -> usize {
        self.spans.len()
    }

    fn fields(&self) -> &[TypedField] {
        self.fields.typed()
    }

    fn decode(&self, indices: &[usize], into: &mut Decoded) -> Result<()> {
        self.spans.visit(indices, |file, offset, row| {
            let refuse = |(place, reason): (usize, String)| {
                let path = file.source().path.clone();
                Error::Format { path, offset: offset + place as u64, reason }
            };
            self.fields.fill(row, into).map_err(refuse)?;
            into.end_sample(self.fields.typed()).map_err(|reason| refuse((0, reason)))
        })
    }

    fn explain(&self, error: Error) -> Error {
        with_line(self.spans.pool(), error)
    }
}

forward_dataset!([] Csv, self => self.decoding);
