//! [`JsonLines`]: files with one JSON value per line.

use std::path::PathBuf;

use super::fields::read_fields;
use super::scan::find_lines;
use crate::dataset::format::field::decoding::{Decode, Decoded, Decoding};
use crate::dataset::format::field::json_text::check;
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::text_file::{text_start, with_line};
use crate::dataset::format::index::broken::{Broken, is_damage};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::spans::Spans;
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::dataset::forward_dataset::forward_dataset;
use crate::{Error, Result};

/// JSON Lines: a sample is a line, either as a whole, as the bytes of its text, or as the requested fields of its
/// object.
///
/// Blank lines are skipped. Lines end in `\n` or `\r\n`, which the last line may lack; a byte order mark is skipped. A
/// line is checked when it is read: it must be UTF-8, a single JSON value, and nest brackets at most 127 deep. The last
/// value of a duplicate key counts. One scan on all cores finds the lines; for files of 4 MiB and more, the result is
/// kept in an index.
///
/// Source: jsonlines.org, RFC 8259.
///
/// # Example
/// ```
/// use sluicegate::{DType, Dataset, Field, JsonLines, TypedField};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # std::fs::write(&path, "{\"text\": \"a\", \"label\": 1}\n\n{\"label\": 2, \"text\": \"b\"}").unwrap();
/// let label = TypedField::number(Field::new("label", DType::Int64, [])).unwrap();
/// let lines = JsonLines::open(vec![path.to_path_buf()], Some(vec![label, TypedField::text("text")]), None).unwrap();
/// assert_eq!((lines.len(), lines.schema().to_string().as_str()), (2, "(label: int64[], text: uint8[*])"));
/// ```
pub struct JsonLines {
    decoding: Decoding<Lines>,
}

struct Lines {
    spans: Spans,
    shape: Shape,
    fields: Vec<TypedField>,
}

/// How a line becomes a sample.
#[derive(Debug)]
enum Shape {
    Whole,
    Fields,
}

impl JsonLines {
    /// Opens the files at `paths`, one after the other: `fields` of their lines, or whole lines as `json`. The index is
    /// kept in `index_folder`, or next to the first file (in the user's cache if that isn't possible).
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if a file can't be read; [`Error::Format`](crate::Error::Format) for a line of
    /// more than 4 GiB, and for UTF-16.
    pub fn open(paths: Vec<PathBuf>, fields: Option<Vec<TypedField>>, index_folder: Option<PathBuf>) -> Result<Self> {
        Self::open_with(paths, fields, index_folder, Damages::Refuse)
    }

    /// The same without broken lines, and without files in UTF-16. This reads all lines once.
    ///
    /// # Errors
    /// As [`open`](Self::open), but [`Error::Format`] only for a line of more than 4 GiB.
    pub fn open_whole(
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedField>>,
        index_folder: Option<PathBuf>,
    ) -> Result<WholeSamples<Self>> {
        let lines = Self::open_with(paths, fields, index_folder.clone(), Damages::LeaveOut)?;
        let Lines { shape, fields, spans } = lines.decoding.decoder();
        let (parameters, files) = (format!("{shape:?} {fields:?}"), spans.pool().shared_files());
        WholeSamples::open(lines, ("lines", &parameters), &files, index_folder, |lines| {
            let mut broken = lines.decoding.find_broken()?;
            unread_files(lines.decoding.decoder().spans.pool(), &mut broken)?;
            Ok(broken)
        })
    }

    fn open_with(
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedField>>,
        index_folder: Option<PathBuf>,
        damages: Damages,
    ) -> Result<Self> {
        let parameters = if damages == Damages::Refuse { "" } else { "leave out" };
        let spans = Spans::open(paths, ("lines 1", parameters), index_folder, |pool| find_lines(pool, damages))?;
        let (shape, fields) = match fields {
            None => (Shape::Whole, vec![TypedField::json("json")]),
            Some(fields) => (Shape::Fields, fields),
        };
        Ok(Self { decoding: Decoding::new(Lines { spans, shape, fields }) })
    }
}

/// Adds the files without readable lines to `broken`.
fn unread_files(pool: &FilePool, broken: &mut Broken) -> Result<()> {
    for number in 0..pool.files().files().len() {
        match text_start(&*pool.file(number)?) {
            Err(error) if is_damage(&error) => broken.push_rest(&error),
            start => drop(start?),
        }
    }
    Ok(())
}

/// The hint for a line that is only an opening bracket.
const SPREAD_OUT: &str =
    "; if the file is one JSON value over several lines, write one value a line, as `jq -c '.[]'` does";

impl Decode for Lines {
    fn len(&self) -> usize {
        self.spans.len()
    }

    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn decode(&self, indices: &[usize], into: &mut Decoded) -> Result<()> {
        self.spans.visit(indices, |file, offset, line| {
            let refuse = |(place, reason): (usize, String)| {
                let path = file.source().path.clone();
                Error::Format { path, offset: offset + place as u64, reason }
            };
            let text =
                std::str::from_utf8(line).map_err(|error| refuse((error.valid_up_to(), "not UTF-8 text".into())))?;
            let read = match self.shape {
                Shape::Whole => check(text).map(|()| into.column(0).bytes.extend(line)),
                Shape::Fields => read_fields(text, &self.fields, into),
            };
            read.map_err(|(place, reason)| match text.trim() {
                "[" | "{" => refuse((place, format!("{reason}{SPREAD_OUT}"))),
                _ => refuse((place, reason)),
            })?;
            into.end_sample(&self.fields).map_err(|reason| refuse((0, reason)))
        })
    }

    fn explain(&self, error: Error) -> Error {
        with_line(self.spans.pool(), error)
    }
}

forward_dataset!([] JsonLines, self => self.decoding);
