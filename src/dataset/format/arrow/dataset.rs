//! [`Arrow`]: the rows of Arrow files.

use std::path::PathBuf;
use std::sync::Arc;

use super::files::{ArrowBatch, ArrowFiles};
use crate::dataset::format::block::cache::Reads;
use crate::dataset::format::block::cache_info::CacheInfo;
use crate::dataset::format::block::starts::FoundBlocks;
use crate::dataset::format::columnar::{ColumnKind, ColumnarOptions, Columns, Nesting, Picks, Places};
use crate::dataset::format::index::broken::{Broken, is_damage};
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::dataset::{BlockSize, Blocks, Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter};

/// The rows of Arrow files: IPC files (also called Feather 2) and IPC streams, plain or compressed with LZ4 or zstd.
///
/// The files are memory-mapped. Uncompressed data is copied once, from the mapping into a batch; batches that had to be
/// decompressed or converted are kept in a cache. Damaged files are errors, and so is a batch that decompresses to more
/// than 4 GiB. Metadata is checked when a batch is first read; the values have no checksum.
///
/// Source: the description of the IPC format in Arrow's documentation.
///
/// # Example
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{Int64Array, RecordBatch};
/// # use arrow_schema::{DataType, Field, Schema};
/// use sluicegate::{Arrow, ColumnarOptions, Dataset};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
/// # let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![5, 6]))]).unwrap();
/// # let mut writer = arrow_ipc::writer::FileWriter::try_new(std::fs::File::create(&path).unwrap(), &schema).unwrap();
/// # writer.write(&rows).unwrap();
/// # writer.finish().unwrap();
/// let rows = Arrow::open(vec![path.to_path_buf()], &ColumnarOptions::default(), 1 << 20).unwrap();
/// assert_eq!((rows.len(), rows.schema().to_string().as_str()), (2, "(x: int64[])"));
/// ```
pub struct Arrow {
    files: ArrowFiles,
    columns: Columns,
}

/// Batches; and for each row, the index of its batch among them, and its row there.
type Found = (Vec<Arc<ArrowBatch>>, Places);

/// The purpose for which rows are looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookupPurpose {
    Sizes,
    Values,
}

impl Arrow {
    /// Opens the files at `paths`, with the columns that `options` request. Up to `cache_bytes` bytes of decompressed
    /// or converted batches are cached.
    ///
    /// # Errors
    /// [`Error::Io`] when a file can't be read; [`Error::Format`] when it is not an Arrow file or stream, or is
    /// damaged; [`Error::InvalidArgument`] for columns that do not exist or can't be read, and for files whose columns
    /// differ.
    pub fn open(paths: Vec<PathBuf>, options: &ColumnarOptions, cache_bytes: usize) -> Result<Self> {
        let mut files = ArrowFiles::open(paths, cache_bytes)?;
        let refuse = |reason| Error::invalid("columns", reason);
        let mut first: Option<(&PathBuf, &arrow_schema::SchemaRef, Columns)> = None;
        for (path, schema) in files.schemas() {
            if first.as_ref().is_some_and(|(_, known, _)| Arc::ptr_eq(known, schema)) {
                continue;
            }
            let columns =
                Columns::new(schema, options).map_err(|reason| refuse(format!("{}: {reason}", path.display())))?;
            let Some((other, _, known)) = &first else {
                first = Some((path, schema, columns));
                continue;
            };
            if let Some((column, expected, found)) = known.difference(&columns) {
                let (other, path) = (other.display(), path.display());
                let reason = format!("column `{column}` is {expected} in {other}, but {found} in {path}");
                return Err(refuse(reason));
            }
        }
        let (_, _, columns) = first.ok_or_else(|| refuse("expected at least one file, got none".into()))?;
        files.choose(&columns);
        Ok(Self { files, columns })
    }

    /// Like [`open`](Self::open), but leaves out broken rows: rows of batches that can't be read, rows with a null that
    /// is refused, and rows with a string that is not valid UTF-8. This reads all batches once, and keeps the result in
    /// `index_folder`, or next to the first file (in the user's cache if that can't be written to).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_whole(
        paths: Vec<PathBuf>,
        options: &ColumnarOptions,
        cache_bytes: usize,
        index_folder: Option<PathBuf>,
    ) -> Result<WholeSamples<Self>> {
        let rows = Self::open(paths, options, cache_bytes)?;
        let files = rows.files.shared_files();
        WholeSamples::open(rows, ("arrow", &format!("{options:?}")), &files, index_folder, Self::find_broken)
    }

    fn find_broken(&self) -> Result<Broken> {
        let batches: Vec<usize> = (0..self.files.starts.len()).collect();
        Broken::find(&batches, |&number| {
            let (mut broken, samples) = (Broken::default(), self.files.starts.samples_of(number));
            let batch = match self.files.batch(&self.columns, number, Reads::Uncounted) {
                Err(error) if is_damage(&error) => {
                    broken.push(samples, || error);
                    return Ok(broken);
                }
                batch => [batch?],
            };
            self.files.read(&batch, || {
                // This may run a second time.
                broken = Broken::default();
                batch[0].block.broken_rows(&self.columns, |row, field, reason| {
                    let index = samples.start + row;
                    broken.push(index..index + 1, || self.refuse(index, field, &reason));
                });
                Ok(())
            })?;
            Ok(broken)
        })
    }

    /// Returns the value of `key` in the schema metadata of the file at `path`. Hugging Face's `datasets` stores its
    /// column types under "huggingface", as JSON.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn metadata(path: PathBuf, key: &str) -> Result<Option<String>> {
        let files = ArrowFiles::open(vec![path], 0)?;
        Ok(files.schemas().next().and_then(|(_, schema)| schema.metadata().get(key).cloned()))
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

    /// Returns the number of rows of each batch in the files: blocks that are stored together.
    pub fn block_sizes(&self) -> impl Iterator<Item = usize> {
        (0..self.files.starts.len()).map(|batch| self.files.starts.samples_of(batch).len())
    }

    /// Returns counters of the batch cache in this process. If the cache holds a window of
    /// [`BlockShuffleSampler`](crate::BlockShuffleSampler), each batch is decompressed or converted once per epoch.
    #[doc(hidden)]
    #[must_use]
    pub fn cache_info(&self) -> CacheInfo {
        self.files.cache_info()
    }

    fn refuse(&self, index: usize, field: String, reason: &str) -> Error {
        let origin = self.files.origin(index).unwrap_or_else(|error| error.to_string());
        Error::Sample { index, field, reason: format!("{origin}: {reason}") }
    }

    /// Returns the batches that contain the rows at `indices`; and for each row, the index of its batch among them, and
    /// its row there. `purpose` is why they are looked up.
    fn find(&self, indices: &[usize], purpose: LookupPurpose) -> Result<Found> {
        let starts = &self.files.starts;
        let FoundBlocks { blocks, counts, of_rows } = starts.find(indices)?;
        // Rows of variable size are looked up twice, for their sizes and then for their values, but count as read once.
        let is_counted = (purpose == LookupPurpose::Sizes) == self.columns.schema().is_variable();
        let counts = counts.into_iter().map(|count| if is_counted { count } else { 0 });
        let batches = self.files.batches(&self.columns, blocks.iter().copied().zip(counts))?;
        let first: Vec<usize> = blocks.iter().map(|&batch| starts.samples_of(batch).start).collect();
        let rows = indices.iter().zip(&of_rows).map(|(&index, &of)| (of, (index - first[of as usize]) as u32));
        Ok((batches, Places::new(blocks.len(), rows.collect())))
    }

    fn write(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let (batches, places) = self.find(indices, LookupPurpose::Values)?;
        let blocks = batches.iter().map(|batch| &batch.block).collect();
        let written = self.files.read(&batches, || Ok(Picks::new(blocks, &places).write(&self.columns, into)))?;
        written.map_err(|refusal| self.refuse(indices[refusal.row], refusal.column, &refusal.reason))
    }
}

impl Dataset for Arrow {
    fn len(&self) -> usize {
        self.files.starts.samples()
    }

    fn schema(&self) -> &Schema {
        self.columns.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.write(&[index], &mut into.as_batch())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        Some(self)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.schema().is_variable().then_some(self)
    }

    fn origin(&self, index: usize, _field: usize) -> Option<String> {
        self.files.origin(index).ok()
    }
}

impl Blocks for Arrow {
    fn count(&self) -> usize {
        self.files.starts.len()
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        self.files.starts.of_sample(index).into_iter().for_each(visit);
    }

    fn size_of(&self, batch: usize) -> BlockSize {
        self.files.size_of(batch)
    }

    fn announce(&self, batch: usize) {
        self.files.announce(batch);
    }
}

impl ReadMany for Arrow {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        self.write(indices, into)
    }
}

impl VariableSize for Arrow {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let (batches, places) = self.find(indices, LookupPurpose::Sizes)?;
        let blocks = batches.iter().map(|batch| &batch.block).collect();
        self.files.read(&batches, || {
            Picks::new(blocks, &places).sizes(&self.columns, into);
            Ok(())
        })?;
        batches.into_iter().for_each(|batch| into.keep(batch));
        Ok(())
    }
}
