//! [`Footer`] and [`Request`]: one Parquet file, read with the crate `parquet`.

use std::any::Any;
use std::io::{self, Read};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema as ArrowSchema;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::basic::Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use super::int96::in_nanoseconds;
use super::schema::check_schema;
use super::texts::{fields_as_read, with_bytes_for_texts};
use crate::dataset::format::file::known_format::{SIGNATURE_BYTES, foreign};
use crate::dataset::format::file::open_file::OpenFile;
use crate::{Error, Result};

/// Rows decoded at a time, so that a damaged file cannot make us allocate what its header claims.
const PIECE_ROWS: usize = 1 << 16;

/// Bytes decoded at a time of the widest fixed-size column, if its rows are large.
const PIECE_BYTES: usize = 256 << 20;

/// The footer of a file.
pub(super) struct Footer {
    /// Strings are read as bytes here; they are checked for UTF-8 where they become strings.
    metadata: ArrowReaderMetadata,
    /// The file's Arrow schema, with nanoseconds as the unit of INT96 columns.
    pub(super) schema: Arc<ArrowSchema>,
}

impl Footer {
    /// Reads the footer of `file`, and the page locations as `pages` says.
    pub(super) fn read(file: &Arc<OpenFile>, pages: PageIndexPolicy) -> Result<Self> {
        Self::read_by(file, ArrowReaderOptions::new().with_offset_index_policy(pages))
    }

    /// Reads the footer of `file`, with page locations and page bounds if the file has them.
    pub(super) fn read_with_bounds(file: &Arc<OpenFile>) -> Result<Self> {
        Self::read_by(file, ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional))
    }

    fn read_by(file: &Arc<OpenFile>, options: ArrowReaderOptions) -> Result<Self> {
        let chunks = Chunks { file: Arc::clone(file), ranges: footer_bytes(file)?.into_iter().collect() };
        let refuse = |reason| refuse(file, file.bytes(), reason);
        if let Some((_, bytes)) = chunks.ranges.first() {
            check_schema(bytes).map_err(|reason| refuse(format!("footer: {reason}")))?;
        }
        let load = || {
            let read = guarded(|| ArrowReaderMetadata::load(&chunks, options.clone()).map_err(Trouble::Parquet));
            read.map_err(|trouble| trouble.into_error(|reason| refuse(format!("footer: {reason}"))))
        };
        let metadata = load()?;
        let schema = in_nanoseconds(metadata.schema(), metadata.parquet_schema());
        let as_read = Arc::new(ArrowSchema::new(fields_as_read(schema.fields())));
        let parsed = Arc::clone(metadata.metadata());
        drop(metadata);
        let as_bytes = guarded(|| {
            let parsed = with_bytes_for_texts(Arc::unwrap_or_clone(parsed))?;
            let supplied = ArrowReaderOptions::new().with_schema(as_read);
            ArrowReaderMetadata::try_new(Arc::new(parsed), supplied).map_err(Trouble::Parquet)
        });
        // If the crate rejects this schema, strings keep the types of the file.
        let metadata = as_bytes.or_else(|_| load())?;
        let groups = metadata.metadata().row_groups();
        // The crate panics if an offset or a size is negative.
        let is_sound = |group: &RowGroupMetaData| {
            let ranges = || Ok(group.columns().iter().for_each(|column| _ = column.byte_range()));
            group.num_rows() >= 0 && guarded(ranges).is_ok()
        };
        if let Some(group) = groups.iter().position(|group| !is_sound(group)) {
            return Err(refuse(format!("footer: row group {group} has a negative number of rows or bytes")));
        }
        if metadata.parquet_schema().num_columns() != crate::dataset::format::columnar::count_leaves(schema.fields()) {
            return Err(refuse("footer: its Arrow schema and its Parquet schema have different columns".into()));
        }
        Ok(Self { metadata, schema })
    }

    pub(super) fn groups(&self) -> &[RowGroupMetaData] {
        self.metadata.metadata().row_groups()
    }

    pub(super) fn metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    /// Returns its approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        self.metadata.metadata().memory_size() + 1024
    }
}

/// Reads the footer, up to the end of the file, and its offset. Returns `None` for the crate to report what is wrong.
fn footer_bytes(file: &OpenFile) -> Result<Option<(u64, Bytes)>> {
    /// The length of the footer, and the magic bytes.
    const TAIL: u64 = 8;
    let Some(start) = file.bytes().checked_sub(TAIL) else { return Ok(None) };
    let tail = read(file, start, TAIL as usize)?;
    let (len, magic) = tail.split_at(4);
    let len = len.iter().rev().fold(0, |len, &byte| len << 8 | u64::from(byte));
    match start.checked_sub(len) {
        Some(start) if magic == b"PAR1" => Ok(Some((start, read(file, start, (len + TAIL) as usize)?))),
        _ => match foreign(&read(file, 0, file.bytes().min(SIGNATURE_BYTES as u64) as usize)?, "a Parquet file") {
            Some(reason) => Err(Error::Format { path: file.source().path.clone(), offset: 0, reason }),
            None => Ok(None),
        },
    }
}

/// Some rows of some columns of a row group.
pub(super) struct Request<'a> {
    pub(super) footer: &'a Footer,
    pub(super) group: usize,
    /// Leaf indices in the schema.
    pub(super) leaves: &'a [usize],
    /// The selected rows. `None`: all rows.
    pub(super) rows: Option<RowSelection>,
    /// Limit on the bytes of the row group, by the value counts in its footer: a few bytes of a damaged file can claim
    /// any number of values.
    pub(super) most_bytes: usize,
}

impl Request<'_> {
    /// Decodes the rows and calls `take` with each piece.
    ///
    /// # Errors
    /// [`Error::Format`] names file, row group, and column, and includes errors of `take`.
    pub(super) fn decode(
        &self,
        file: &Arc<OpenFile>,
        mut take: impl FnMut(&RecordBatch) -> std::result::Result<(), String>,
    ) -> Result<()> {
        let group = &self.footer.groups()[self.group];
        let start = group.columns().first().map_or(0, |column| column.byte_range().0);
        let refuse = |reason| refuse(file, start, format!("row group {}: {reason}", self.group));
        let tried = guarded(|| self.pieces(file, self.leaves, &mut take));
        let Err(trouble) = tried else { return Ok(()) };
        Err(trouble.into_error(|reason| {
            // The crate does not name the column, so decode each alone.
            let fails = |leaf: &&usize| guarded(|| self.pieces(file, &[**leaf], &mut |_| Ok(()))).is_err();
            let column = self.leaves.iter().find(fails).map(|&leaf| group.column(leaf).column_path().string());
            refuse(column.map_or(reason.clone(), |column| format!("column `{column}`: {reason}")))
        }))
    }

    fn pieces(
        &self,
        file: &Arc<OpenFile>,
        leaves: &[usize],
        take: &mut dyn FnMut(&RecordBatch) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), Trouble> {
        let group = &self.footer.groups()[self.group];
        let widths: Vec<usize> = leaves.iter().map(|&leaf| width(group.column(leaf))).collect();
        let promised = leaves.iter().zip(&widths).map(|(&leaf, width)| {
            usize::try_from(group.column(leaf).num_values()).unwrap_or(usize::MAX).saturating_mul(*width)
        });
        let promised = promised.fold(0, usize::saturating_add);
        if promised > self.most_bytes {
            return Err(Trouble::Words(format!(
                "its values have {promised} bytes, but at most {} are decoded at once; raise cache_bytes if the size \
                 is right",
                self.most_bytes
            )));
        }
        let widest = widths.into_iter().max().unwrap_or(0).max(1);
        // If rows are selected, only the pages that contain them are read.
        let ranges = match self.rows {
            Some(_) => Vec::new(),
            None => leaves.iter().map(|&leaf| chunk(file, group, leaf)).collect::<std::result::Result<_, _>>()?,
        };
        let chunks = Chunks { file: Arc::clone(file), ranges };
        let mask = ProjectionMask::leaves(self.footer.metadata.parquet_schema(), leaves.iter().copied());
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, self.footer.metadata.clone())
            .with_row_groups(vec![self.group])
            .with_projection(mask)
            .with_batch_size((PIECE_BYTES / widest).clamp(1, PIECE_ROWS));
        if let Some(rows) = &self.rows {
            builder = builder.with_row_selection(rows.clone());
        }
        for batch in builder.build()? {
            let batch = batch.map_err(|error| match error {
                arrow_schema::ArrowError::ExternalError(error) => Trouble::Parquet(ParquetError::External(error)),
                error => {
                    let message = error.to_string();
                    Trouble::Words(
                        message
                            .trim_start_matches("Parquet argument error: ")
                            .trim_start_matches("Parquet error: ")
                            .into(),
                    )
                }
            })?;
            take(&batch).map_err(Trouble::Words)?;
        }
        Ok(())
    }
}

/// Returns the size of one value in bytes, or 0 if sizes vary.
fn width(column: &ColumnChunkMetaData) -> usize {
    match column.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::INT96 | Type::DOUBLE => 8,
        Type::BYTE_ARRAY => 0,
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.column_descr().type_length()).unwrap_or(0),
    }
}

fn chunk(file: &OpenFile, group: &RowGroupMetaData, leaf: usize) -> std::result::Result<(u64, Bytes), Trouble> {
    let (start, len) = group.column(leaf).byte_range();
    Ok((start, read(file, start, usize::try_from(len).unwrap_or(usize::MAX))?))
}

/// Reads a range of a file. Fails before allocating memory if the range is past the end.
fn read(file: &OpenFile, start: u64, len: usize) -> Result<Bytes> {
    if start.checked_add(len as u64).is_none_or(|end| end > file.bytes()) {
        file.read_at(start, &mut [])?;
        let reason = format!("{len} bytes are expected here, but the file has only {} in total", file.bytes());
        return Err(refuse(file, start, reason));
    }
    let mut bytes = vec![0; len];
    file.read_at(start, &mut bytes)?;
    Ok(bytes.into())
}

pub(crate) fn refuse(file: &OpenFile, offset: u64, reason: String) -> Error {
    Error::Format { path: file.source().path.clone(), offset, reason }
}

/// Errors while a file is decoded.
enum Trouble {
    Parquet(ParquetError),
    Own(Error),
    Words(String),
}

impl From<ParquetError> for Trouble {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

impl Trouble {
    /// Converts it to an error; `refuse` makes one from a reason.
    fn into_error(self, refuse: impl FnOnce(String) -> Error) -> Error {
        match self {
            Self::Own(error) => error,
            Self::Words(reason) => refuse(reason),
            Self::Parquet(ParquetError::External(error)) => match error.downcast::<Error>() {
                Ok(error) => *error,
                Err(other) => refuse(other.to_string()),
            },
            // The crate prefixes its messages.
            Self::Parquet(error) => {
                let message = error.to_string();
                refuse(message.strip_prefix("Parquet error: ").unwrap_or(&message).to_owned())
            }
        }
    }
}

/// Runs `work`. Damaged files can make the crate panic; a panic becomes an error like any other.
fn guarded<T>(work: impl FnOnce() -> std::result::Result<T, Trouble>) -> std::result::Result<T, Trouble> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Trouble::Words(words(&*panic))))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it can't be decoded ({})", message.unwrap_or("the decoder gave up"))
}

/// A file as the crate reads it, with some ranges already read.
struct Chunks {
    file: Arc<OpenFile>,
    ranges: Vec<(u64, Bytes)>,
}

impl Chunks {
    fn range(&self, start: u64, len: usize) -> Option<Bytes> {
        let within = |&(from, ref bytes): &(u64, Bytes)| {
            let start = usize::try_from(start.checked_sub(from)?).ok()?;
            let range: Range<usize> = start..start.checked_add(len)?;
            (range.end <= bytes.len()).then(|| bytes.slice(range))
        };
        self.ranges.iter().find_map(within)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.file.bytes()
    }
}

impl ChunkReader for Chunks {
    type T = Rest;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Rest> {
        let of = self.ranges.iter().find(|(from, bytes)| (*from..*from + bytes.len() as u64).contains(&start));
        let ready = of.map(|(from, bytes)| bytes.slice((start - from) as usize..)).unwrap_or_default();
        Ok(Rest { file: Arc::clone(&self.file), place: start, ready })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        match self.range(start, length) {
            Some(bytes) => Ok(bytes),
            None => read(&self.file, start, length).map_err(|error| ParquetError::External(Box::new(error))),
        }
    }
}

/// The rest of a file, from an offset on.
struct Rest {
    file: Arc<OpenFile>,
    place: u64,
    /// Bytes already read, starting at `place`.
    ready: Bytes,
}

impl Read for Rest {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        /// Bytes read at a time, for page headers.
        const AHEAD: u64 = 4096;
        if self.ready.is_empty() {
            let left = self.file.bytes().saturating_sub(self.place).min(AHEAD);
            self.ready = read(&self.file, self.place, left as usize).map_err(io::Error::other)?;
        }
        let len = into.len().min(self.ready.len());
        into[..len].copy_from_slice(&self.ready.split_to(len));
        self.place += len as u64;
        Ok(len)
    }
}
