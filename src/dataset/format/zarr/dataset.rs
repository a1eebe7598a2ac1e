//! [`Zarr`]: windows of the arrays of a Zarr store.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::array::{Chunk, ZarrArray};
use super::cuts::{windows_of, with_dimensions};
use super::field::ZarrField;
use super::found_array::ForeignArray;
use super::found_array::FoundArray;
use super::kerchunk::{KerchunkStore, ReferenceTable};
use super::options::ZarrOptions;
use super::store::{self, Contents, Store, all_arrays, named_arrays, refuse};
use super::windows::{WindowAxis, Windows};
use crate::dataset::format::block::cache::{BlockCache, CACHED_BYTES, Reads};
use crate::dataset::format::block::cache_info::CacheInfo;
use crate::dataset::helpers::{each_helped, helpers};
use crate::dataset::{BlockSize, Blocks, Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter};

/// Chunks decoded per thread before it ends: starting a thread costs less than decoding this many.
const CHUNKS_EACH: usize = 4;

/// Windows of the arrays of a Zarr store (v2 or v3) in a folder, or the rows of its arrays.
///
/// Windows are computed from their indices, never listed. A chunk is decoded as a whole and kept in a cache of bounded
/// size, where neighboring windows find it. A missing chunk holds fill values. Values are decoded by the conventions
/// for climate and forecast data (CF), as xarray does.
///
/// The metadata is read when the store is opened. The store must not be modified while it is read, because chunks are
/// cached. Threads may share a dataset.
///
/// Source: the specifications of Zarr, versions 2 and 3.
///
/// # Example
/// ```
/// use sluicegate::{Dataset, Zarr, ZarrOptions};
/// # let folder = tempfile::tempdir().unwrap();
/// # let metadata = r#"{"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<i2", "fill_value": 7, "order": "C",
/// #     "compressor": null, "filters": null}"#;
/// # std::fs::write(folder.path().join(".zarray"), metadata).unwrap();
/// let window = vec![("dim_0".into(), 2), ("dim_1".into(), 2)];
/// let options = ZarrOptions { window: Some(window), decode_cf: false, ..ZarrOptions::default() };
/// let windows = Zarr::open(folder.path(), &options).unwrap();
/// assert_eq!((windows.len(), windows.schema().fields()[0].shape()), (6, &[2, 2][..]));
/// ```
pub struct Zarr {
    fields: Vec<ZarrField>,
    windows: Windows,
    schema: Schema,
    is_one_array: bool,
    /// Decoded chunks, by number among the chunks of all fields.
    chunks: BlockCache<usize, Chunk>,
}

impl Zarr {
    /// Opens the store in `folder`.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be read; [`Error::Format`] names the file whose metadata is damaged, or the
    /// unsupported feature; [`Error::InvalidArgument`] for names, sizes and strides that don't fit.
    pub fn open(folder: impl AsRef<Path>, options: &ZarrOptions) -> Result<Self> {
        let folder = folder.as_ref();
        // A relative path would change with the working directory; a URL is kept so that the error shows it unchanged.
        let folder = match std::path::absolute(folder) {
            Ok(absolute) if absolute.exists() => absolute,
            _ => folder.to_path_buf(),
        };
        Self::of_store(&*store::open(&folder)?, &folder, options)
    }

    /// Opens the store whose metadata is `text`, a JSON file of references at `path`. `tables` holds the references to
    /// chunks, by array.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn of_references(
        path: &Path,
        text: &[u8],
        tables: HashMap<String, ReferenceTable>,
        options: &ZarrOptions,
    ) -> Result<Self> {
        Self::of_store(&KerchunkStore::parse(path, text)?.with_tables(tables), path, options)
    }

    fn of_store(store: &dyn Store, path: &Path, options: &ZarrOptions) -> Result<Self> {
        let (found, is_one_array) = match &options.fields {
            Some(names) => (named_arrays(store, path, names)?, false),
            None => match all_arrays(store, path)? {
                Contents::Array(array) => (vec![*array], true),
                Contents::Group(arrays) => (with_dimensions(arrays, options), false),
            },
        };
        Self::of(found, is_one_array, options)
    }

    /// Opens arrays of another format. If the options name none, opens those that have all dimensions of the window.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn of_other_format(arrays: Vec<ForeignArray>, options: &ZarrOptions) -> Result<Self> {
        let found = arrays.into_iter().map(|array| {
            let (name, path) = (array.name.clone(), array.path.clone());
            array.found().map_err(|reason| refuse(path, format!("array {name:?}: {reason}")))
        });
        let found = found.collect::<Result<Vec<_>>>()?;
        let found = if options.fields.is_none() { with_dimensions(found, options) } else { found };
        Self::of(found, false, options)
    }

    fn of(found: Vec<FoundArray>, is_one_array: bool, options: &ZarrOptions) -> Result<Self> {
        let names = || found.iter().map(|array| &array.name);
        if let Some((place, name)) =
            names().enumerate().find(|(place, name)| names().take(*place).any(|other| other == *name))
        {
            let reason = format!("expected each name once, got {name:?} again at place {place}");
            return Err(Error::invalid("fields", reason));
        }
        let windows = windows_of(&found, options)?;
        let mut fields: Vec<ZarrField> = Vec::with_capacity(found.len());
        let mut chunks = 0_usize;
        for FoundArray { name, path, metadata, chunks: places, members } in found {
            if options.window.is_none() && metadata.dimensions.first() != windows.axes.first().map(|axis| &axis.name) {
                let reason = format!(
                    "expected arrays with one first dimension, {:?}, got {name:?} with the dimensions {:?}; pass window=, or \
                     leave it out",
                    windows.axes[0].name, metadata.dimensions
                );
                return Err(Error::invalid("fields", reason));
            }
            let array = ZarrArray::new(name.clone(), metadata, places, options.decode_cf)
                .map_err(|reason| refuse(path, format!("array {name:?}: {reason}")))?;
            let array = Arc::new(array);
            let parts = if members.is_empty() { vec![None] } else { members.into_iter().map(Some).collect() };
            // Members of the same records share their chunks.
            for part in parts {
                fields.push(ZarrField::new(Arc::clone(&array), part, &windows, chunks)?);
            }
            let own = fields.last().map_or(0, ZarrField::chunks);
            chunks = chunks
                .checked_add(own)
                .ok_or_else(|| Error::invalid("fields", "there are more chunks than can be counted"))?;
        }
        let is_row = options.window.is_none();
        let schema = Schema::new(fields.iter().map(|field| field.field(is_row)).collect::<Vec<_>>());
        let chunks = BlockCache::new(options.cache_bytes.unwrap_or(CACHED_BYTES));
        Ok(Self { fields, windows, schema, is_one_array, chunks })
    }

    /// True if the store is a single array, not a group of arrays.
    #[must_use]
    pub fn is_one_array(&self) -> bool {
        self.is_one_array
    }

    /// Returns the number of windows in each block, for each axis with windows. The blocks of samples are the product
    /// of the axes, the last axis changing fastest.
    #[must_use]
    pub fn block_counts(&self) -> Vec<Vec<usize>> {
        self.windows.axes.iter().map(WindowAxis::block_counts).collect()
    }

    /// Returns counters of the chunk cache in this process. If the cache holds a window of blocks of
    /// [`BlockShuffleSampler`](crate::BlockShuffleSampler), each chunk is decoded once per epoch, unless windows of the
    /// array cross chunk boundaries.
    #[doc(hidden)]
    #[must_use]
    pub fn cache_info(&self) -> CacheInfo {
        self.chunks.info()
    }

    /// Returns the number of chunks of all fields.
    pub(super) fn chunk_count(&self) -> usize {
        self.fields.last().map_or(0, |field| field.first_chunk + field.chunks())
    }

    /// Decodes chunk `number` and discards it.
    ///
    /// # Errors
    /// The chunk can't be read or is damaged.
    pub(super) fn try_chunk(&self, number: usize) -> Result<()> {
        self.field_of(number).map_or(Ok(()), |(field, number)| field.array.chunk(number).map(|_| ()))
    }

    /// True if any window has elements of chunk `number`.
    pub(super) fn is_in_windows(&self, number: usize) -> bool {
        self.field_of(number).is_some_and(|(field, number)| field.windows_of(number, &self.windows) > 0)
    }

    /// Returns the windows that have elements of chunk `number`.
    pub(super) fn windows_with(&self, number: usize) -> Vec<usize> {
        self.field_of(number).map_or_else(Vec::new, |(field, number)| field.windows_with(number, &self.windows))
    }

    /// Returns the field that has chunk `number`, and its number within the field.
    fn field_of(&self, number: usize) -> Option<(&ZarrField, usize)> {
        let field = self.fields.partition_point(|field| field.first_chunk <= number).checked_sub(1)?;
        let field = &self.fields[field];
        let number = number - field.first_chunk;
        (number < field.chunks()).then_some((field, number))
    }

    fn write(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let starts = indices.iter().map(|&index| self.windows.starts(index)).collect::<Result<Vec<_>>>()?;
        // Arrays for which `check` does anything are all in one file, so checking the first field is enough.
        if let Some(field) = self.fields.first() {
            field.array.check()?;
        }
        for (place, field) in self.fields.iter().enumerate() {
            if field.text_bytes().is_some() {
                for (row, text) in self.texts(field, &starts)?.iter().enumerate() {
                    // The text was sized in an earlier read of the same chunk; if it is shorter now, the file has
                    // changed.
                    let mut sample = into.sample(row);
                    let bytes = sample.field(place);
                    let text = text.get(..bytes.len()).ok_or_else(|| field.array.changed())?;
                    bytes.copy_from_slice(text);
                }
                continue;
            }
            self.read_field(field, &starts, &mut |row, write| write(into.sample(row).field(place)))?;
        }
        Ok(())
    }

    /// Returns the strings of `field` at `starts`, without trailing NULs.
    fn texts(&self, field: &ZarrField, starts: &[Vec<usize>]) -> Result<Vec<Vec<u8>>> {
        let mut texts = vec![vec![0; field.text_bytes().unwrap_or(0)]; starts.len()];
        self.read_field(field, starts, &mut |row, write| write(&mut texts[row]))?;
        for text in &mut texts {
            text.truncate(text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        }
        Ok(texts)
    }

    /// Reads the windows of `field` at `starts`; `at` provides the buffer of each row.
    fn read_field(&self, field: &ZarrField, starts: &[Vec<usize>], at: &mut RowPlaces<'_>) -> Result<()> {
        // By chunk number: the rows that have elements of it.
        let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (row, starts) in starts.iter().enumerate() {
            at(row, &mut |into| field.pad(starts, into));
            field.chunks_of(starts, &mut |number| rows.entry(number).or_default().push(row));
        }
        let sharing = self.fields.iter().filter(|other| other.first_chunk == field.first_chunk).count();
        let reads = |number: usize, rows: &[usize]| Reads::Counted {
            now: rows.len(),
            all: field.windows_of(number, &self.windows).saturating_mul(sharing),
        };
        let mut copy = |number: usize, chunk: &Chunk, rows: &[usize]| {
            for &row in rows {
                at(row, &mut |into| field.copy(number, chunk, &starts[row], into));
            }
        };
        // Copy cached chunks first: decoding the others may evict them.
        let mut missing = Vec::new();
        for (number, rows) in rows {
            match self.chunks.peek(&(field.first_chunk + number), reads(number, &rows)) {
                Some(chunk) => copy(number, &chunk, &rows),
                None => missing.push((number, rows)),
            }
        }
        // Chunks that other threads are decoding come last: by then they are probably done, and this thread need not
        // wait. The key is cached because a sort may panic if keys change meanwhile.
        missing.sort_by_cached_key(|(number, _)| self.chunks.has(&(field.first_chunk + number)));
        let helpers = if field.array.benefits_from_helpers() { helpers() } else { 0 };
        // In portions: all chunks at once may not fit into memory.
        let at_once = if helpers == 0 { 1 } else { (helpers + 1) * CHUNKS_EACH };
        for some in missing.chunks(at_once) {
            let chunks = each_helped(helpers.min(some.len() - 1), some.iter().collect(), |(_, (number, rows))| {
                self.chunk(field, *number, reads(*number, rows))
            })?;
            for ((number, rows), chunk) in some.iter().zip(&chunks) {
                copy(*number, chunk, rows);
            }
        }
        for row in 0..starts.len() {
            at(row, &mut |into| field.finish(into));
        }
        Ok(())
    }

    fn chunk(&self, field: &ZarrField, number: usize, reads: Reads) -> Result<Arc<Chunk>> {
        self.chunks.read(&(field.first_chunk + number), reads, || {
            let chunk = field.array.chunk(number)?;
            let bytes = match &chunk {
                Chunk::Values(values) => values.len().max(1),
                Chunk::Missing => 1,
            };
            Ok((chunk, bytes))
        })
    }
}

/// Calls its second argument with the buffer of a row.
type RowPlaces<'a> = dyn FnMut(usize, &mut dyn FnMut(&mut [u8])) + 'a;

impl Dataset for Zarr {
    fn len(&self) -> usize {
        self.windows.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
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
        self.schema.is_variable().then_some(self)
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        let (starts, field) = (self.windows.starts(index).ok()?, self.fields.get(field)?);
        let mut first = None;
        field.chunks_of(&starts, &mut |number| first = first.or(Some(number)));
        first.map(|number| field.array.origin(number))
    }
}

impl ReadMany for Zarr {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        self.write(indices, into)
    }
}

impl VariableSize for Zarr {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let starts = indices.iter().map(|&index| self.windows.starts(index)).collect::<Result<Vec<_>>>()?;
        for (place, field) in self.fields.iter().enumerate().filter(|(_, field)| field.text_bytes().is_some()) {
            for (row, text) in self.texts(field, &starts)?.iter().enumerate() {
                into.set(row, place, text.len());
            }
        }
        Ok(())
    }
}

impl Blocks for Zarr {
    fn count(&self) -> usize {
        self.chunk_count()
    }

    fn blocks_of(&self, index: usize, visit: &mut dyn FnMut(usize)) {
        if let Ok(starts) = self.windows.starts(index) {
            for (place, field) in self.fields.iter().enumerate() {
                // Members of the same records are in the same chunks.
                if place == 0 || self.fields[place - 1].first_chunk != field.first_chunk {
                    field.chunks_of(&starts, &mut |number| visit(field.first_chunk + number));
                }
            }
        }
    }

    fn size_of(&self, block: usize) -> BlockSize {
        let Some((field, _)) = self.field_of(block) else { return BlockSize::NONE };
        let (read, kept) = field.array.chunk_bytes();
        BlockSize { read, kept, limit: self.chunks.limit() }
    }

    fn announce(&self, block: usize) {
        if !self.chunks.has(&block)
            && let Some((field, number)) = self.field_of(block)
        {
            field.array.announce(number);
        }
    }
}
