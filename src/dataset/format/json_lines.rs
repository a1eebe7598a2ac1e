//! [`JsonLines`]: files of one JSON value a line.

use std::path::PathBuf;

use super::decoding::{Decode, Decoded, Decoding, dataset_by_decoding};
use super::json_fields::{check, read_fields};
use super::json_scan::find_lines;
use super::spans::Spans;
use super::text_file::refuse_line;
use super::typed_field::TypedField;
use crate::Result;

/// JSON Lines: a sample is a line, either whole, as the bytes of its text, or the fields of the object in it that were asked
/// for.
///
/// Blank lines are no samples. Lines end in `\n` or `\r\n`, the last one need not; a byte order mark is skipped. A line is
/// checked when it is read: that it is UTF-8, one JSON value, and that its brackets are nested at most 127 deep. Of a key
/// that comes twice the last value counts. Where the lines are is found by one scan, by all cores, which is kept in an index
/// for files of 4 MiB and more.
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

/// What of a line is a sample.
enum Shape {
    Whole,
    Fields,
}

impl JsonLines {
    /// The lines of the files at `paths`, one file after the other: their `fields`, or all of them as `json`. The index is
    /// kept in `index_folder`, or beside the first file (in the user's cache where that can't be).
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when a file can't be read; [`Error::Format`](crate::Error::Format) for a line of more
    /// than 4 GiB, and for UTF-16.
    pub fn open(paths: Vec<PathBuf>, fields: Option<Vec<TypedField>>, index_folder: Option<PathBuf>) -> Result<Self> {
        let spans = Spans::open(paths, ("lines 1", ""), index_folder, find_lines)?;
        let (shape, fields) = match fields {
            None => (Shape::Whole, vec![TypedField::json("json")]),
            Some(fields) => (Shape::Fields, fields),
        };
        Ok(Self { decoding: Decoding::new(Lines { spans, shape, fields }) })
    }
}

impl Decode for Lines {
    fn len(&self) -> usize {
        self.spans.len()
    }

    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn decode(&self, indices: &[usize], into: &mut Decoded) -> Result<()> {
        self.spans.visit(indices, |file, offset, line| {
            let refuse = |(place, reason): (usize, String)| refuse_line(file, offset + place as u64, &reason);
            let text = std::str::from_utf8(line)
                .map_err(|error| refuse((error.valid_up_to(), "this is no UTF-8 text".into())))?;
            match self.shape {
                Shape::Whole => {
                    check(text).map_err(refuse)?;
                    into.column(0).bytes.extend(line);
                }
                Shape::Fields => read_fields(text, &self.fields, into).map_err(refuse)?,
            }
            into.end_sample(&self.fields).map_err(|reason| refuse((0, reason)))
        })
    }
}

dataset_by_decoding!(JsonLines);
