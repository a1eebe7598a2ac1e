//! [`ParquetShards`]: Parquet files of bounded size, encoded by threads while the next samples are produced.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use rayon::ThreadPool;

use super::columns::{Cut, ParquetColumn, ParquetField};
use crate::dataset::format::shard::file::ShardFile;
use crate::dataset::format::shard::thread_pool::pool;
use crate::dataset::format::shard::threads::{ShardThreads, ShardWriter, Wait, WrittenShard};
use crate::error::catch;
use crate::{Error, Result};

/// Maximum bytes of a row group before encoding, if it has several samples: readers decode whole row groups.
const ROW_GROUP_BYTES: u64 = 64 << 20;

/// Arrow string arrays have 32-bit offsets, so they hold less than 2 GiB.
const LARGEST: u64 = (1 << 31) - 1;

/// How the pages of a Parquet file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParquetCompression {
    /// Zstandard at its lowest level.
    #[default]
    Zstd,
    /// Snappy.
    Snappy,
    /// No compression.
    Uncompressed,
}

/// Options for writing Parquet files.
#[derive(Debug, Clone)]
pub struct ParquetShardOptions {
    /// Maximum bytes of the samples in a file, before encoding. A larger sample gets a file of its own.
    pub shard_bytes: u64,
    /// Maximum number of samples in a row group.
    pub row_group_rows: usize,
    /// How pages are compressed.
    pub compression: ParquetCompression,
    /// The number of encoding threads.
    pub threads: usize,
}

/// Distributes samples over Parquet files. Row groups are encoded in parallel, and written in order, while the next
/// ones are filled. The output depends only on the samples and options. A shard dropped before its end leaves no file.
///
/// # Example
/// ```
/// use sluicegate::internal::{ParquetColumn, ParquetElement, ParquetField, ParquetShardOptions, ParquetShards, Wait};
/// use sluicegate::DType;
/// # let folder = tempfile::TempDir::new().unwrap();
/// # let path = folder.path().join("a.parquet");
/// let element = ParquetElement::Number(DType::UInt8);
/// let field = ParquetField { name: "x".into(), element, is_list: false, shape: vec![2] };
/// let options = ParquetShardOptions { shard_bytes: 1 << 20, row_group_rows: 1000, compression: Default::default(), threads: 1 };
/// let mut shards = ParquetShards::new(vec![field], &options)?;
/// shards.begin(path.clone());
/// let column = ParquetColumn { values: &[1, 2, 3, 4, 5, 6], ..ParquetColumn::default() };
/// assert_eq!(shards.append(&[column], 0..3)?, 3);
/// shards.end();
/// assert_eq!(shards.written(Wait::ForAll)?[0].samples, 3);
/// assert!(std::fs::read(&path).unwrap().starts_with(b"PAR1"));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct ParquetShards {
    // Dropped before the encoders: its threads wait for their results.
    threads: ShardThreads<RowGroup>,
    encoders: ThreadPool,
    form: Arc<Form>,
    fields: Vec<ParquetField>,
    options: ParquetShardOptions,
    current: Option<Current>,
}

/// A row group that another thread encodes.
type RowGroup = Receiver<Result<Vec<ArrowColumnChunk>>>;

/// What all files share.
struct Form {
    arrow: SchemaRef,
    root: TypePtr,
    properties: WriterPropertiesPtr,
    columns: ArrowRowGroupWriterFactory,
}

#[derive(Default)]
struct Current {
    bytes: u64,
    samples: usize,
    group: Vec<RecordBatch>,
    group_bytes: u64,
    group_rows: usize,
}

impl ParquetShards {
    /// Creates shards for samples with these fields.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a field can't be written, or there are no fields; [`Error::Threads`].
    pub fn new(fields: Vec<ParquetField>, options: &ParquetShardOptions) -> Result<Self> {
        if fields.is_empty() {
            return Err(Error::invalid("fields", "expected at least one column, got none"));
        }
        let form = Form::new(&fields, options.compression)?;
        Ok(Self {
            threads: ShardThreads::new(1, options.threads.max(1))?,
            encoders: pool(options.threads, "encode")?,
            form: Arc::new(form),
            fields,
            options: options.clone(),
            current: None,
        })
    }

    /// Appends the samples `rows` of `columns`, one column per field, to the current shard. Returns how many of them
    /// fit.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when columns do not match each other or their fields, or a sample is larger than 2
    /// GiB; samples appended earlier are kept.
    pub fn append(&mut self, columns: &[ParquetColumn<'_>], rows: Range<usize>) -> Result<usize> {
        if columns.len() != self.fields.len() {
            let reason = format!(
                "expected one column for each field, got {} columns for {} fields",
                columns.len(),
                self.fields.len()
            );
            return Err(Error::invalid("columns", reason));
        }
        let cuts = self.fields.iter().zip(columns).map(|(field, column)| Cut::new(field, *column, rows.end));
        let cuts = cuts.collect::<Result<Vec<_>>>()?;
        let Some(mut current) = self.current.take() else { return Ok(0) };
        let appended = self.append_to(&mut current, &cuts, &rows);
        // Samples appended earlier are kept, even if these fail.
        self.current = Some(current);
        appended
    }

    fn append_to(&self, current: &mut Current, cuts: &[Cut<'_>], rows: &Range<usize>) -> Result<usize> {
        for row in rows.clone() {
            let bytes = bytes_of(cuts, row);
            if bytes > LARGEST {
                let reason =
                    format!("sample {row} of this call has {bytes} bytes, but a sample must have less than 2 GiB");
                return Err(Error::invalid("columns", reason));
            }
        }
        // Consecutive samples of one row group are pushed as one batch.
        let mut run = rows.start..rows.start;
        let mut run_bytes = 0;
        for row in rows.clone() {
            let bytes = bytes_of(cuts, row);
            if current.samples > 0 && current.bytes + bytes > self.options.shard_bytes {
                break;
            }
            let is_full = current.group_rows >= self.options.row_group_rows.max(1)
                || current.group_rows > 0 && current.group_bytes + bytes > ROW_GROUP_BYTES;
            if is_full || run_bytes + bytes > LARGEST {
                current.push(&self.form, cuts, &run, run_bytes)?;
                (run, run_bytes) = (row..row, 0);
            }
            if is_full {
                self.flush(current);
            }
            (run.end, run_bytes) = (row + 1, run_bytes + bytes);
            current.samples += 1;
            current.bytes += bytes;
            current.group_rows += 1;
            current.group_bytes += bytes;
        }
        current.push(&self.form, cuts, &run, run_bytes)?;
        Ok(run.end - rows.start)
    }

    /// Sends the filled row group to the encoders.
    fn flush(&self, current: &mut Current) {
        let batches = std::mem::take(&mut current.group);
        (current.group_rows, current.group_bytes) = (0, 0);
        if batches.is_empty() {
            return;
        }
        let (sender, receiver) = sync_channel(1);
        let form = Arc::clone(&self.form);
        self.encoders.spawn(move || {
            // If the shard was abandoned, the receiver is gone.
            let _ = sender.send(catch(|| form.encode(&batches)));
        });
        self.threads.send(receiver);
    }

    /// Ends the current shard, and begins one at `path`.
    pub fn begin(&mut self, path: PathBuf) {
        self.end();
        let form = Arc::clone(&self.form);
        self.threads.begin(path.clone(), move || ParquetWriter::create(path, &form));
        self.current = Some(Current::default());
    }

    /// Ends the current shard.
    pub fn end(&mut self) {
        if let Some(mut current) = self.current.take() {
            self.flush(&mut current);
            self.threads.end(current.samples);
        }
    }

    /// Returns the shards that were completed since the last call. With [`Wait::ForAll`], waits for all ended shards.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn written(&mut self, wait: Wait) -> Result<Vec<WrittenShard>> {
        self.threads.written(wait)
    }

    /// Abandons the current shard, and waits until no thread is writing.
    ///
    /// # Errors
    /// [`Error::Io`] when a thread does not end within 20 seconds because the file system hangs; it names the shard.
    pub fn close(&mut self) -> Result<()> {
        self.current = None;
        self.threads.close()
    }
}

fn bytes_of(cuts: &[Cut<'_>], row: usize) -> u64 {
    cuts.iter().map(|cut| cut.row_bytes(row)).fold(0, u64::saturating_add)
}

impl Current {
    /// Appends `rows`, which are already counted, of `bytes` in all, to the row group.
    fn push(&mut self, form: &Form, cuts: &[Cut<'_>], rows: &Range<usize>, bytes: u64) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let arrays = cuts.iter().map(|cut| cut.array(rows)).collect::<Result<Vec<_>>>();
        let batch = arrays
            .and_then(|arrays| RecordBatch::try_new(Arc::clone(&form.arrow), arrays).map_err(|error| invalid(&error)));
        // Samples that can't be written are not counted; the shard continues with the next ones.
        self.group.push(batch.inspect_err(|_| {
            self.samples -= rows.len();
            self.group_rows -= rows.len();
            self.bytes -= bytes;
            self.group_bytes -= bytes;
        })?);
        Ok(())
    }
}

impl Form {
    fn new(fields: &[ParquetField], compression: ParquetCompression) -> Result<Self> {
        let arrow = Arc::new(Schema::new(fields.iter().map(ParquetField::arrow).collect::<Result<Vec<_>>>()?));
        let compression = match compression {
            ParquetCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
            ParquetCompression::Snappy => Compression::SNAPPY,
            ParquetCompression::Uncompressed => Compression::UNCOMPRESSED,
        };
        let mut properties = WriterProperties::builder().set_compression(compression).build();
        // Lets readers restore types that Parquet lacks, such as fixed-size lists.
        add_encoded_arrow_schema_to_metadata(&arrow, &mut properties);
        let properties = Arc::new(properties);
        let root = ArrowSchemaConverter::new().convert(&arrow).map_err(|error| invalid(&error))?.root_schema_ptr();
        // The factory needs a file, but uses only its schema.
        let file = SerializedFileWriter::new(io::sink(), Arc::clone(&root), Arc::clone(&properties));
        let columns = ArrowRowGroupWriterFactory::new(&file.map_err(|error| invalid(&error))?, Arc::clone(&arrow));
        Ok(Self { arrow, root, properties, columns })
    }

    /// Encodes the columns of a row group.
    fn encode(&self, batches: &[RecordBatch]) -> Result<Vec<ArrowColumnChunk>> {
        let encode = || {
            let mut writers = self.columns.create_column_writers(0)?;
            for batch in batches {
                let mut next = writers.iter_mut();
                for (field, array) in self.arrow.fields().iter().zip(batch.columns()) {
                    for (leaf, writer) in compute_leaves(field, array)?.iter().zip(&mut next) {
                        writer.write(leaf)?;
                    }
                }
            }
            writers.into_iter().map(|writer| writer.close()).collect::<parquet::errors::Result<Vec<_>>>()
        };
        encode().map_err(|error| invalid(&error))
    }
}

fn invalid(error: &dyn std::error::Error) -> Error {
    Error::invalid("samples", format!("can't be written as Parquet: {error}"))
}

struct ParquetWriter {
    path: PathBuf,
    file: SerializedFileWriter<ShardFile>,
}

impl ParquetWriter {
    fn create(path: PathBuf, form: &Form) -> Result<Self> {
        let file = ShardFile::create(path.clone())?;
        let file = SerializedFileWriter::new(file, Arc::clone(&form.root), Arc::clone(&form.properties));
        Ok(Self { file: file.map_err(|error| refused(&path, error))?, path })
    }
}

impl ShardWriter<RowGroup> for ParquetWriter {
    fn write(&mut self, group: RowGroup) -> Result<()> {
        let columns = group.recv().unwrap_or_else(|_| {
            let reason = "no thread that encodes row groups is left".into();
            Err(Error::State { reason })
        })?;
        let write = || {
            let mut group = self.file.next_row_group()?;
            columns.into_iter().try_for_each(|column| column.append_to_row_group(&mut group))?;
            group.close()
        };
        write().map(drop).map_err(|error| refused(&self.path, error))
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        self.file.into_inner().map_err(|error| refused(&self.path, error))?.finish()
    }
}

fn refused(path: &std::path::Path, error: ParquetError) -> Error {
    let path = path.to_path_buf();
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => Error::Io { path, source: *source },
            Err(other) => Error::Io { path, source: io::Error::other(other) },
        },
        other => Error::Io { path, source: io::Error::other(other) },
    }
}
