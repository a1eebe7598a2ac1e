//! [`Parquet`]: the rows of Parquet files.

use std::path::PathBuf;
use std::sync::Arc;

use super::filter::ParquetFilter;
use super::reuse::Reuse;
use super::source::{DecodedGroup, Pages, ParquetSource};
use crate::dataset::format::block::batch_key::BatchKey;
use crate::dataset::format::block::cache::{BlockCache, CACHED_BYTES, Reads};
use crate::dataset::format::block::cache_info::CacheInfo;
use crate::dataset::format::block::starts::FoundBlocks;
use crate::dataset::format::columnar::{ColumnKind, ColumnarOptions, Nesting, Picks, Places};
use crate::dataset::format::index::broken::{Broken, is_damage};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::dataset::{BlockSize, Blocks, Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter};

/// Options for reading Parquet files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParquetOptions {
    /// The columns, and how nulls, strings, and decimals are converted.
    pub columns: ColumnarOptions,
    /// Conditions; only rows that satisfy all of them are samples.
    pub filter: Vec<ParquetFilter>,
    /// The cache size for decoded row groups, in bytes. Default: 256 MiB.
    pub cache_bytes: Option<usize>,
    /// The folder for an index of many files, or of filter results. Default: next to the first file.
    pub index_folder: Option<PathBuf>,
}

/// The rows of Parquet files, one file after the other.
///
/// Opening reads the footers in parallel, and the columns that a filter needs. A row group is decoded as a whole, but
/// only the requested columns, and kept in a cache of bounded size. If row groups turn out to be evicted with little
/// reuse, only the needed pages are decoded, provided that the file has page locations. Strings are not checked to be
/// UTF-8.
///
/// # Example
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{Int64Array, RecordBatch};
/// # use arrow_schema::{DataType, Field, Schema};
/// use sluicegate::{Dataset, Parquet, ParquetOptions};
/// # let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
/// # let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
/// # let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![5, 6]))]).unwrap();
/// # let mut writer = parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), schema, None).unwrap();
/// # writer.write(&rows).unwrap();
/// # writer.close().unwrap();
/// let rows = Parquet::open(vec![path.to_path_buf()], ParquetOptions::default()).unwrap();
/// assert_eq!((rows.len(), rows.schema().to_string().as_str()), (2, "(x: int64[])"));
/// ```
pub struct Parquet {
    source: ParquetSource,
    decoded: BlockCache<usize, DecodedGroup>,
    reuse: Reuse,
    cache_bytes: usize,
    /// By the indices of a batch. The limit is 0, so that batches are found only while they are being read.
    batches: BlockCache<BatchKey, Located>,
}

/// Where the samples of a batch are: their row groups, and the piece and row of each sample.
struct Located {
    groups: Vec<Arc<DecodedGroup>>,
    /// Pieces are numbered across all groups.
    places: Places,
}

impl Parquet {
    /// Opens the files at `paths`.
    ///
    /// # Errors
    /// [`Error::Io`] when a file can't be read; [`Error::Format`] when it is not a Parquet file, its columns differ
    /// from the first file's, or a column's type is unsupported; [`Error::InvalidArgument`] for an unknown column.
    pub fn open(paths: Vec<PathBuf>, options: ParquetOptions) -> Result<Self> {
        Self::open_with(paths, options, Damages::Refuse)
    }

    /// Like [`open`](Self::open), but leaves out broken rows: rows of row groups that can't be decoded, rows with a
    /// null that is refused, and rows with a string that is not valid UTF-8. This decodes all row groups once.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_whole(paths: Vec<PathBuf>, options: ParquetOptions) -> Result<WholeSamples<Self>> {
        let folder = options.index_folder.clone();
        let parameters = format!("{:?} {:?}", options.columns, options.filter);
        let rows = Self::open_with(paths, options, Damages::LeaveOut)?;
        let files = rows.source.shared_files();
        WholeSamples::open(rows, ("parquet", &parameters), &files, folder, Self::find_broken)
    }

    fn open_with(paths: Vec<PathBuf>, options: ParquetOptions, damages: Damages) -> Result<Self> {
        let cache_bytes = options.cache_bytes.unwrap_or(CACHED_BYTES);
        Ok(Self {
            source: ParquetSource::open(paths, options, damages)?,
            decoded: BlockCache::new(cache_bytes),
            reuse: Reuse::new(cache_bytes),
            cache_bytes,
            batches: BlockCache::new(0),
        })
    }

    /// Returns the value of `key` in the schema metadata of the file at `path`. Hugging Face's `datasets` stores its
    /// column types under "huggingface", as JSON.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn metadata(path: PathBuf, key: &str) -> Result<Option<String>> {
        ParquetSource::metadata(path, key)
    }

    /// Returns the kind of each field.
    #[doc(hidden)]
    #[must_use]
    pub fn kinds(&self) -> &[ColumnKind] {
        self.source.columns.kinds()
    }

    /// Returns how the fields are nested.
    #[doc(hidden)]
    #[must_use]
    pub fn nesting(&self) -> &Nesting {
        self.source.columns.nesting()
    }

    /// Returns the number of samples in each row group, file by file, for samplers that read by blocks.
    #[must_use]
    pub fn group_samples(&self) -> Vec<usize> {
        let starts = &self.source.groups.starts;
        (0..starts.len()).map(|group| starts.samples_of(group).len()).collect()
    }

    fn find_broken(&self) -> Result<Broken> {
        let groups: Vec<usize> = (0..self.source.groups.starts.len()).collect();
        Broken::find(&groups, |&group| {
            let (mut broken, samples) = (Broken::default(), self.source.groups.starts.samples_of(group));
            if samples.is_empty() {
                return Ok(broken);
            }
            self.source.check(&[group])?;
            let decoded = self.source.check_filter(group).and_then(|()| self.source.decode(group, None));
            let decoded = match decoded {
                Err(error) if is_damage(&error) => {
                    broken.push(samples, || error);
                    return Ok(broken);
                }
                decoded => decoded?,
            };
            let mut first = samples.start;
            for piece in &decoded.pieces {
                piece.broken_rows(&self.source.columns, |row, field, reason| {
                    let index = first + row;
                    broken.push(index..index + 1, || {
                        let origin = self.source.origin(index).unwrap_or_else(|error| error.to_string());
                        Error::Sample { index, field, reason: format!("{origin}: {reason}") }
                    });
                });
                first += piece.rows();
            }
            Ok(broken)
        })
    }

    /// Returns counters of the row group cache in this process. If the cache holds a window of
    /// [`BlockShuffleSampler`](crate::BlockShuffleSampler), each row group is decoded once per epoch.
    #[doc(hidden)]
    #[must_use]
    pub fn cache_info(&self) -> CacheInfo {
        self.decoded.info()
    }

    /// Returns row group `group` if it is cached; `count` of its samples are read.
    fn found(&self, group: usize, count: usize) -> Option<Arc<DecodedGroup>> {
        let samples = self.source.groups.starts.samples_of(group).len();
        let decoded = self.decoded.peek(&group, Reads::Counted { now: count, all: samples })?;
        self.reuse.touch(group, decoded.bytes(), samples, count);
        Some(decoded)
    }

    /// Decodes row group `group`, which is not cached, or only the `count` samples in it that `wanted` returns.
    ///
    /// The whole group can be cached for later reads. If it would be evicted before them, as in a shuffle of more than
    /// the cache holds, it is much cheaper to decode just the pages with the samples, if their locations are known.
    fn group(&self, group: usize, count: usize, wanted: impl FnOnce() -> Vec<usize>) -> Result<Arc<DecodedGroup>> {
        let samples = self.source.groups.starts.samples_of(group).len();
        let place = self.source.groups.place(group);
        let bytes = self.source.footer(place.file, Pages::Unknown)?.bytes_of(place.in_file);
        let share = self.reuse.touch(group, bytes, samples, count);
        if share < 0.5 && count < samples / 4 {
            let pages = self.source.footer(place.file, Pages::Known)?.pages_of(place.in_file);
            let by_pages = pages.map(|pages| (count as f64 / pages.max(1) as f64).min(1.0));
            // How many reads of `count` samples make up the expected share of the group.
            let times = samples as f64 * share / count.max(1) as f64;
            if by_pages.is_some_and(|cost| cost * times < 1.0) {
                self.decoded.count_part();
                return self.source.decode(group, Some(wanted())).map(Arc::new);
            }
        }
        self.decoded.read(&group, Reads::Counted { now: count, all: samples }, || {
            let decoded = self.source.decode(group, None)?;
            let bytes = decoded.bytes().max(1);
            Ok((decoded, bytes))
        })
    }

    fn locate(&self, indices: &[usize]) -> Result<Located> {
        let starts = &self.source.groups.starts;
        let FoundBlocks { blocks, counts, of_rows } = starts.find(indices)?;
        // Cached groups of a file that has changed since must not be mixed with newly read ones.
        self.source.check(&blocks)?;
        // Look up cached groups first: decoding the others may evict them.
        let found: Vec<_> = blocks.iter().zip(&counts).map(|(&group, &count)| self.found(group, count)).collect();
        // Past the cache size, keep only the batch's rows of a group: a batch may have samples from everywhere.
        let mut held = 0_usize;
        let groups = blocks.iter().zip(counts).zip(found).enumerate().map(|(place, ((&group, count), found))| {
            let wanted = || {
                let of_group = indices.iter().zip(&of_rows).filter(|(_, of)| **of as usize == place);
                let start = starts.samples_of(group).start;
                let mut wanted: Vec<usize> = of_group.map(|(index, _)| index - start).collect();
                wanted.sort_unstable();
                wanted.dedup();
                wanted
            };
            let decoded = match found {
                Some(decoded) => decoded,
                None => self.group(group, count, wanted)?,
            };
            held = held.saturating_add(decoded.bytes());
            Ok(if held > self.cache_bytes && blocks.len() > 1 { Arc::new(decoded.taken(wanted())) } else { decoded })
        });
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let mut pieces = 0;
        let first = blocks.iter().zip(&groups).map(|(&group, decoded)| {
            pieces += decoded.pieces.len();
            (starts.samples_of(group).start, pieces - decoded.pieces.len())
        });
        let first: Vec<(usize, usize)> = first.collect();
        let place = |(&index, &of): (&usize, &u32)| {
            let (first_sample, first_piece) = first[of as usize];
            let (piece, row) = groups[of as usize].place(index - first_sample);
            ((first_piece + piece) as u32, row as u32)
        };
        let rows = indices.iter().zip(&of_rows).map(place).collect();
        Ok(Located { places: Places::new(pieces, rows), groups })
    }

    /// Locates the samples of a batch, or returns what was located when their sizes were requested.
    fn batch(&self, indices: &[usize]) -> Result<Arc<Located>> {
        if !self.source.columns.schema().is_variable() {
            return self.locate(indices).map(Arc::new);
        }
        self.batches.get(&BatchKey::of(indices), || Ok((self.locate(indices)?, 1)))
    }

    fn write(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let located = self.batch(indices)?;
        located.picks().write(&self.source.columns, into).map_err(|refusal| {
            let index = indices[refusal.row];
            let origin = self.source.origin(index).unwrap_or_else(|error| error.to_string());
            Error::Sample { index, field: refusal.column, reason: format!("{origin}: {}", refusal.reason) }
        })
    }
}

impl Located {
    fn picks(&self) -> Picks<'_> {
        Picks::new(self.groups.iter().flat_map(|group| &group.pieces).collect(), &self.places)
    }
}

impl Dataset for Parquet {
    fn len(&self) -> usize {
        self.source.groups.starts.samples()
    }

    fn schema(&self) -> &Schema {
        self.source.columns.schema()
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
        self.source.origin(index).ok()
    }
}

impl Blocks for Parquet {
    fn count(&self) -> usize {
        self.source.groups.starts.len()
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        self.source.groups.starts.of_sample(index).into_iter().for_each(visit);
    }

    fn size_of(&self, group: usize) -> BlockSize {
        let place = self.source.groups.place(group);
        let bytes = self.source.footer(place.file, Pages::Unknown).map_or(0, |known| known.bytes_of(place.in_file));
        BlockSize { read: bytes, kept: bytes, limit: self.cache_bytes }
    }

    fn announce(&self, group: usize) {
        if !self.decoded.has(&group) {
            // Errors are ignored here: the read reports them.
            let _ = self.source.announce(group);
        }
    }
}

impl ReadMany for Parquet {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        self.write(indices, into)
    }
}

impl VariableSize for Parquet {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let located = self.batch(indices)?;
        located.picks().sizes(&self.source.columns, into);
        into.keep(located);
        Ok(())
    }
}
