//! [`ArrowFiles`]: the batches of memory-mapped Arrow files, with caches of what was decoded.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_buffer::Buffer;

use super::batch::{Dictionaries, is_aligned, read_batch, read_dictionaries};
use super::index::{ArrowIndex, BatchPlace, Refused, without_panic};
use crate::dataset::BlockSize;
use crate::dataset::format::block::cache::{BlockCache, Reads};
use crate::dataset::format::block::cache_info::CacheInfo;
use crate::dataset::format::block::starts::BlockStarts;
use crate::dataset::format::columnar::{Block, Columns};
use crate::dataset::format::file::data_file::MAPPED_FILES;
use crate::dataset::format::file::pool::{FilePool, OPEN_FILES};
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::memory::Segment;
use crate::{Error, Result};

/// The cache cost of a batch in addition to its values: its arrays, and the mapping that it keeps alive.
const BYTES_PER_BATCH: usize = 16 << 10;

/// Arrow files, one after the other.
pub(super) struct ArrowFiles {
    pool: FilePool,
    files: Vec<IndexedFile>,
    /// Maps rows to the batches of all files.
    pub(super) starts: BlockStarts,
    mapped: BlockCache<usize, Mapped>,
    /// By file, and the number of dictionary messages that were applied.
    dictionaries: BlockCache<(usize, u32), Dictionaries>,
    batches: BlockCache<usize, ArrowBatch>,
}

struct IndexedFile {
    index: ArrowIndex,
    /// The number of batches in earlier files.
    first_batch: usize,
    /// The columns of the file that contain anything that is read.
    projection: Vec<usize>,
}

/// A memory-mapped file.
pub(crate) struct Mapped {
    file: usize,
    segment: Arc<Segment>,
    buffer: Buffer,
}

/// A batch that is ready to be read.
pub(super) struct ArrowBatch {
    pub(super) block: Block,
    mapped: Arc<Mapped>,
}

impl ArrowFiles {
    /// Opens the files at `paths`.
    pub(super) fn open(paths: Vec<PathBuf>, cache_bytes: usize) -> Result<Self> {
        let pool = FilePool::new(Arc::new(SourceFiles::look(paths)?), OPEN_FILES);
        let numbers: Vec<usize> = (0..pool.files().files().len()).collect();
        let indexes = scan(&numbers, |&number| {
            let mapped = map(&pool, number)?;
            let index =
                mapped.read(|| ArrowIndex::read(&mapped.buffer)).map_err(|refused| refuse(&pool, number, refused));
            check(&pool, [&mapped])?;
            index
        })?;
        let (mut files, mut row_ends): (Vec<IndexedFile>, Vec<usize>) = (Vec::new(), Vec::new());
        for (number, mut index) in indexes.into_iter().enumerate() {
            for batch in &index.batches {
                let end = row_ends.last().copied().unwrap_or(0_usize).checked_add(batch.rows as usize);
                let too_many = || (batch.message.offset, "the files have more rows than can be counted".to_owned());
                row_ends.push(end.ok_or_else(|| refuse(&pool, number, too_many()))?);
            }
            // Most files share the schema of the first, except those with dictionaries: their ids are not compared.
            if let Some(first) = files.first().filter(|first| first.index.schema == index.schema)
                && index.dictionaries.is_empty()
                && first.index.dictionaries.is_empty()
            {
                index.schema = Arc::clone(&first.index.schema);
            }
            let first_batch = row_ends.len() - index.batches.len();
            files.push(IndexedFile { index, first_batch, projection: Vec::new() });
        }
        let mapped = BlockCache::new(MAPPED_FILES);
        let (dictionaries, batches) = (BlockCache::new(cache_bytes), BlockCache::new(cache_bytes));
        Ok(Self { pool, files, starts: BlockStarts::new(row_ends), mapped, dictionaries, batches })
    }

    /// Returns the path and schema of each file.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&PathBuf, &arrow_schema::SchemaRef)> {
        self.pool.files().files().iter().map(|file| &file.path).zip(self.files.iter().map(|file| &file.index.schema))
    }

    /// Reads only what `columns` need from now on.
    pub(super) fn choose(&mut self, columns: &Columns) {
        for file in &mut self.files {
            file.projection = columns.top_level(&file.index.schema);
        }
    }

    pub(super) fn shared_files(&self) -> Arc<SourceFiles> {
        self.pool.shared_files()
    }

    /// Returns the file of batch `batch`.
    pub(super) fn file_of(&self, batch: usize) -> &PathBuf {
        &self.pool.files().files()[self.file_number(batch)].path
    }

    /// Describes the file and row of row `index` of all files.
    pub(super) fn origin(&self, index: usize) -> Result<String> {
        let batch = self.starts.of_sample(index)?;
        let first = self.files[self.file_number(batch)].first_batch;
        let row = index - self.starts.samples_of(first).start;
        Ok(format!("row {row} of {}", self.file_of(batch).display()))
    }

    fn file_number(&self, batch: usize) -> usize {
        // If several files have this first batch, the last one: the others are empty.
        self.files.partition_point(|file| file.first_batch <= batch) - 1
    }

    /// Returns counters of the batch cache.
    pub(super) fn cache_info(&self) -> CacheInfo {
        self.batches.info()
    }

    /// Returns `batches`, converted as `columns` says. Each has its number, and how many of its rows are read now.
    pub(super) fn batches(
        &self,
        columns: &Columns,
        batches: impl Iterator<Item = (usize, usize)>,
    ) -> Result<Vec<Arc<ArrowBatch>>> {
        let counted = |(batch, now)| (batch, Reads::Counted { now, all: self.starts.samples_of(batch).len() });
        let batches: Vec<(usize, Reads)> = batches.map(counted).collect();
        // Look up cached batches first: decoding the others may evict them.
        let found: Vec<_> = batches.iter().map(|(batch, reads)| self.batches.peek(batch, *reads)).collect();
        let all = batches.into_iter().zip(found);
        all.map(|((batch, reads), found)| found.map_or_else(|| self.batch(columns, batch, reads), Ok)).collect()
    }

    pub(super) fn batch(&self, columns: &Columns, batch: usize, reads: Reads) -> Result<Arc<ArrowBatch>> {
        self.batches.read(&batch, reads, || self.decode(columns, batch))
    }

    /// Returns the file that contains `batch`, and where in the file it is.
    fn place(&self, batch: usize) -> (usize, BatchPlace) {
        let number = self.file_number(batch);
        let file = &self.files[number];
        (number, file.index.batches[batch - file.first_batch])
    }

    /// Decodes `batch`. Returns it with its cache cost.
    fn decode(&self, columns: &Columns, batch: usize) -> Result<(ArrowBatch, usize)> {
        let (number, BatchPlace { message, rows, dictionaries }) = self.place(batch);
        let file = &self.files[number];
        let mapped = self.mapped.get(&number, || Ok((map(&self.pool, number)?, 1)))?;
        let dictionaries = self.dictionaries(&mapped, dictionaries)?;
        let block = mapped.read(|| {
            let arrays = read_batch(&mapped.buffer, &file.index, message, &dictionaries, &file.projection)?;
            let block = without_panic(|| Block::new(columns, &arrays)).unwrap_or_else(Err);
            let block = block.map_err(|reason| (message.offset, reason))?;
            let is_whole = block.rows() as u64 == rows;
            is_whole
                .then_some(block)
                .ok_or_else(|| (message.offset, "a batch has a different number of rows than before".to_owned()))
        });
        check(&self.pool, [&*mapped])?;
        let block = block.map_err(|refused| refuse(&self.pool, number, refused))?;
        let own = if is_aligned(message) { block.bytes_outside(&mapped.buffer) } else { block.bytes() };
        Ok((ArrowBatch { block, mapped }, own + BYTES_PER_BATCH))
    }

    /// As [`Blocks::size_of`](crate::Blocks::size_of).
    pub(super) fn size_of(&self, batch: usize) -> BlockSize {
        let (_, BatchPlace { message, .. }) = self.place(batch);
        let bytes = usize::try_from(message.body).unwrap_or(usize::MAX);
        BlockSize { read: bytes, kept: bytes, limit: self.batches.limit() }
    }

    /// As [`Blocks::announce`](crate::Blocks::announce). Batches that are used in place are announced even if they are
    /// cached: the cache holds only their location.
    pub(super) fn announce(&self, batch: usize) {
        let (number, BatchPlace { message, .. }) = self.place(batch);
        if let Ok(file) = self.pool.file(number) {
            file.will_read_all(message.offset, u64::from(message.metadata).saturating_add(message.body));
        }
    }

    fn dictionaries(&self, mapped: &Mapped, count: u32) -> Result<Arc<Dictionaries>> {
        let IndexedFile { index, projection, .. } = &self.files[mapped.file];
        self.dictionaries.get(&(mapped.file, count), || {
            let found = mapped.read(|| read_dictionaries(&mapped.buffer, index, count as usize, projection));
            check(&self.pool, [mapped])?;
            let found = found.map_err(|refused| refuse(&self.pool, mapped.file, refused))?;
            let bytes: usize = found.values().map(|values| values.get_buffer_memory_size()).sum();
            Ok((found, bytes + 1))
        })
    }

    /// Runs `read`, which reads some batches.
    ///
    /// # Errors
    /// Errors of `read`; [`Error::Changed`] or [`Error::Shrunk`] when a file has changed or was truncated.
    pub(super) fn read<T>(&self, batches: &[Arc<ArrowBatch>], read: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut mapped: Vec<&Mapped> = Vec::new();
        for batch in batches {
            if mapped.last().is_none_or(|last| last.file != batch.mapped.file) {
                mapped.push(&batch.mapped);
            }
        }
        mapped.sort_by_key(|mapped| (mapped.file, Arc::as_ptr(&mapped.segment).addr()));
        mapped.dedup_by_key(|mapped| Arc::as_ptr(&mapped.segment));
        let mut result = None;
        // A file may be written to meanwhile: invalid data may cause a panic, but the change is the error to report.
        Segment::read_all_by(mapped.iter().map(|mapped| &*mapped.segment), || result = Some(without_panic(read)));
        check(&self.pool, mapped)?;
        let panicked = |message| Error::Panic { index: None, message };
        result.expect("it was run").map_err(panicked)?
    }
}

impl Mapped {
    fn read<T>(&self, read: impl FnOnce() -> T) -> T {
        let mut result = None;
        self.segment.read_by(|| result = Some(read()));
        result.expect("it was run")
    }
}

fn map(pool: &FilePool, number: usize) -> Result<Mapped> {
    let segment = Arc::new(pool.file(number)?.map()?);
    Ok(Mapped { file: number, buffer: segment.arrow_buffer(), segment })
}

/// Fails if one of these files has changed since it was opened, or has lost pages that were read.
fn check<'a>(pool: &FilePool, mapped: impl IntoIterator<Item = &'a Mapped>) -> Result<()> {
    let mut lost = None;
    for mapped in mapped {
        let file = pool.file(mapped.file)?;
        if mapped.segment.has_lost_pages() {
            lost.get_or_insert(file);
        }
    }
    // Truncated and extended again, so that it may look unchanged.
    lost.map_or(Ok(()), |file| {
        Err(Error::Changed {
            path: file.source().path.clone(),
            reason: "part of it was missing when it was read".into(),
        })
    })
}

fn refuse(pool: &FilePool, number: usize, (offset, reason): Refused) -> Error {
    Error::Format { path: pool.files().files()[number].path.clone(), offset, reason }
}
