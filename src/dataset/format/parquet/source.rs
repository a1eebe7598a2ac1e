//! [`ParquetSource`]: Parquet files, their footers, and the decoding of row groups.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer};
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::PageIndexPolicy;

use super::dataset::ParquetOptions;
use super::file::{Footer, Request, refuse};
use super::filter::Filter;
use super::groups::{FoundGroup, Groups, KeptRows};
use crate::dataset::format::block::cache::BlockCache;
use crate::dataset::format::columnar::{Block, ColumnarOptions, Columns};
use crate::dataset::format::file::pool::{FilePool, OPEN_FILES};
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::place::SMALL;
use crate::{Error, Result};

/// Maximum size of a decoded row group in bytes, unless the cache is larger: a few bytes of a damaged file can stand
/// for any number of rows.
pub(super) const LARGEST_GROUP: usize = 4 << 30;

/// The cache size for footers, in bytes.
const FOOTER_BYTES: usize = 64 << 20;

/// Parquet files, with the columns and rows that are read.
pub(super) struct ParquetSource {
    pool: FilePool,
    pub(super) columns: Columns,
    options: ParquetOptions,
    filter: Option<Filter>,
    pub(super) groups: Groups,
    footers: BlockCache<(usize, Pages), KnownFooter>,
}

/// Selects footers without page locations, or with them (if the file has them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pages {
    Unknown,
    Known,
}

/// A footer, and the indices of the leaves that are read.
pub(super) struct KnownFooter {
    footer: Footer,
    leaves: Vec<usize>,
}

/// Decoded samples of a row group.
pub(super) struct DecodedGroup {
    pub(super) pieces: Vec<Block>,
    /// By piece: the cumulative number of samples.
    ends: Vec<usize>,
    /// The samples of the group that were decoded, in order. `None`: all.
    rows: Option<Vec<usize>>,
}

impl ParquetSource {
    /// Opens the files at `paths`.
    pub(super) fn open(paths: Vec<PathBuf>, options: ParquetOptions, damages: Damages) -> Result<Self> {
        let pool = FilePool::new(Arc::new(SourceFiles::look(paths)?), OPEN_FILES);
        if pool.files().files().is_empty() {
            return Err(Error::invalid("paths", "expected at least one file, got none"));
        }
        let first = Footer::read(&pool.file(0)?, PageIndexPolicy::Skip)?;
        let columns = Columns::new(&first.schema, &options.columns)
            .map_err(|reason| Error::invalid("columns", of_file(&pool, 0, &reason)))?;
        let filter = Filter::new(&first.schema, &options.filter)
            .map_err(|reason| Error::invalid("filter", of_file(&pool, 0, &reason)))?;
        let mut parameters = format!("{:?} {:?}", options.columns, options.filter);
        if filter.is_some() && damages == Damages::LeaveOut {
            parameters.push_str(" leave out");
        }
        let folder = options.index_folder.clone();
        let bytes = pool.files().bytes();
        let groups = Groups::open(&pool, &parameters, folder, filter.is_some() && bytes >= SMALL, || {
            find_groups(&pool, &columns, &options, filter.as_ref(), damages)
        })?;
        Ok(Self { pool, columns, options, filter, groups, footers: BlockCache::new(FOOTER_BYTES) })
    }

    /// Returns the value of `key` in the schema metadata of the file at `path`.
    pub(super) fn metadata(path: PathBuf, key: &str) -> Result<Option<String>> {
        let pool = FilePool::new(Arc::new(SourceFiles::look(vec![path])?), OPEN_FILES);
        let footer = Footer::read(&pool.file(0)?, PageIndexPolicy::Skip)?;
        Ok(footer.schema.metadata().get(key).cloned())
    }

    pub(super) fn footer(&self, file: usize, pages: Pages) -> Result<Arc<KnownFooter>> {
        self.footers.get(&(file, pages), || {
            let known = KnownFooter::read(&self.pool, file, pages, &self.options.columns)?;
            let bytes = known.footer.bytes();
            Ok((known, bytes))
        })
    }

    pub(super) fn shared_files(&self) -> Arc<SourceFiles> {
        self.pool.shared_files()
    }

    /// Fails if the filter's columns can't be read in row group `group`, so that the rows it keeps are unknown.
    pub(super) fn check_filter(&self, group: usize) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let place = self.groups.place(group);
        let (file, known) = (self.pool.file(place.file)?, self.footer(place.file, Pages::Unknown)?);
        let rows = known.footer.groups().get(place.in_file).map_or(0, |group| group.num_rows() as usize);
        filter.check(&file, &known.footer, place.in_file, rows)
    }

    /// Fails if a file that contains one of `groups`, which are sorted, has changed.
    pub(super) fn check(&self, groups: &[usize]) -> Result<()> {
        let mut checked = None;
        for &group in groups {
            let file = self.groups.place(group).file;
            if checked.replace(file) != Some(file) {
                self.pool.check(file)?;
            }
        }
        Ok(())
    }

    /// Decodes row group `group`, or only its samples `rows`, which are sorted.
    pub(super) fn decode(&self, group: usize, rows: Option<Vec<usize>>) -> Result<DecodedGroup> {
        let place = self.groups.place(group);
        let file = self.pool.file(place.file)?;
        let mut known = self.footer(place.file, Pages::Unknown)?;
        let changed = |reason: String| Error::Changed { path: file.source().path.clone(), reason };
        let of_group = known.footer.groups().get(place.in_file);
        let all = of_group.map(|group| group.num_rows() as usize);
        let all = all.ok_or_else(|| changed(format!("it no longer has a row group {}", place.in_file)))?;
        let bits = self.groups.bits(group, all)?;
        let is_part = rows.is_some() || bits.is_some();
        let picked =
            (is_part && known.has_lists(place.in_file)).then(|| left_rows(rows.as_deref(), bits.as_deref(), all));
        if rows.is_some() && picked.is_none() {
            known = self.footer(place.file, Pages::Known)?;
        } else if bits.is_some() && picked.is_none() {
            // With page locations, pages without samples are not read.
            known = self.footer(place.file, Pages::Known).unwrap_or(known);
        }
        let selected = match (&rows, bits) {
            _ if picked.is_some() => None,
            (Some(rows), bits) => Some(selection(rows, bits.as_deref(), all)),
            (None, Some(words)) => {
                let words = Buffer::from_vec(words.into_iter().map(u64::to_le).collect::<Vec<u64>>());
                Some(RowSelection::from_boolean_buffer(BooleanBuffer::new(words, 0, all)))
            }
            (None, None) => None,
        };
        let limit = LARGEST_GROUP.max(self.options.cache_bytes.unwrap_or(0));
        let request = Request {
            footer: &known.footer,
            group: place.in_file,
            leaves: &known.leaves,
            rows: selected,
            most_bytes: limit,
        };
        let expected = rows.as_ref().map_or(self.groups.starts.samples_of(group).len(), Vec::len);
        let mut decoded = DecodedGroup { pieces: Vec::new(), ends: Vec::new(), rows };
        let (mut bytes, mut seen) = (0_usize, 0);
        request.decode(&file, |batch| {
            let mut block = Block::new(&self.columns, batch)?;
            if let Some(picked) = &picked {
                let start = seen;
                seen += block.rows();
                let within = picked.partition_point(|&row| row < start)..picked.partition_point(|&row| row < seen);
                if within.is_empty() {
                    return Ok(());
                }
                block = block.taken(&picked[within].iter().map(|row| row - start).collect::<Vec<usize>>());
            }
            bytes = bytes.saturating_add(block.bytes());
            if bytes > limit {
                return Err(format!(
                    "it has more than {limit} bytes when it is decoded; raise cache_bytes if the size is right"
                ));
            }
            decoded.ends.push(decoded.samples() + block.rows());
            decoded.pieces.push(block);
            Ok(())
        })?;
        if decoded.samples() != expected {
            let reason =
                format!("row group {} has {} rows, but {expected} are expected", place.in_file, decoded.samples());
            return Err(refuse(&file, file.bytes(), reason));
        }
        Ok(decoded)
    }

    /// Asks the operating system to prefetch row group `group`, unless a filter keeps only some of its rows: then its
    /// pages are read one by one.
    pub(super) fn announce(&self, group: usize) -> Result<()> {
        let place = self.groups.place(group);
        let (file, known) = (self.pool.file(place.file)?, self.footer(place.file, Pages::Unknown)?);
        let Some(of_group) = known.footer.groups().get(place.in_file) else { return Ok(()) };
        if self.groups.bits(group, of_group.num_rows() as usize)?.is_none() {
            for &leaf in &known.leaves {
                let (start, bytes) = of_group.column(leaf).byte_range();
                file.will_read_all(start, bytes);
            }
        }
        Ok(())
    }

    /// Describes the file and row of sample `index`.
    pub(super) fn origin(&self, index: usize) -> Result<String> {
        let group = self.groups.starts.of_sample(index)?;
        let place = self.groups.place(group);
        let known = self.footer(place.file, Pages::Unknown)?;
        let rows = |group: usize| known.footer.groups().get(group).map_or(0, |group| group.num_rows() as usize);
        let within = index - self.groups.starts.samples_of(group).start;
        let in_group = match self.groups.bits(group, rows(place.in_file))? {
            None => within,
            Some(bits) => {
                let is_left = |&row: &usize| bits[row / 64] >> (row % 64) & 1 == 1;
                (0..rows(place.in_file)).filter(is_left).nth(within).unwrap_or(within)
            }
        };
        let row = (0..place.in_file).map(rows).sum::<usize>() + in_group;
        Ok(format!("row {row} of {}", self.pool.files().files()[place.file].path.display()))
    }
}

impl KnownFooter {
    fn read(pool: &FilePool, file: usize, pages: Pages, options: &ColumnarOptions) -> Result<Self> {
        let open = pool.file(file)?;
        let policy = match pages {
            Pages::Unknown => PageIndexPolicy::Skip,
            Pages::Known => PageIndexPolicy::Optional,
        };
        let footer = Footer::read(&open, policy)?;
        let columns = Columns::new(&footer.schema, options).map_err(|reason| refuse(&open, open.bytes(), reason))?;
        Ok(Self { leaves: columns.leaf_places(), footer })
    }

    /// Returns the size of the columns that are read in group `in_file`, in bytes, according to the footer.
    pub(super) fn bytes_of(&self, in_file: usize) -> usize {
        let Some(group) = self.footer.groups().get(in_file) else { return 0 };
        let bytes = self.leaves.iter().map(|&leaf| group.column(leaf).uncompressed_size());
        bytes.map(|bytes| usize::try_from(bytes).unwrap_or(0)).fold(0, usize::saturating_add)
    }

    /// True if a column that is read has lists. Such a group is decoded in full, and unwanted rows are dropped: when
    /// asked to skip rows of lists, the crate loops forever on a damaged page with fewer rows than it declares.
    pub(super) fn has_lists(&self, in_file: usize) -> bool {
        let group = self.footer.groups().get(in_file);
        group.is_some_and(|group| self.leaves.iter().any(|&leaf| group.column(leaf).column_descr().max_rep_level() > 0))
    }

    /// Returns the largest number of pages of any column in group `in_file`. Returns `None` if it is unknown for a
    /// column, or if pages can't be skipped.
    pub(super) fn pages_of(&self, in_file: usize) -> Option<usize> {
        if self.has_lists(in_file) {
            return None;
        }
        let index = self.footer.metadata().metadata().page_index()?;
        let pages = self.leaves.iter().map(|&leaf| index.page_locations(in_file, leaf).map(Vec::len));
        pages.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

impl DecodedGroup {
    fn samples(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Copies the samples `rows`, which are sorted.
    pub(super) fn taken(&self, rows: Vec<usize>) -> Self {
        let mut taken = Self { pieces: Vec::new(), ends: Vec::new(), rows: None };
        let places: Vec<(usize, usize)> = rows.iter().map(|&row| self.place(row)).collect();
        for of_piece in places.chunk_by(|a, b| a.0 == b.0) {
            let rows: Vec<usize> = of_piece.iter().map(|(_, row)| *row).collect();
            taken.pieces.push(self.pieces[of_piece[0].0].taken(&rows));
            taken.ends.push(taken.samples() + rows.len());
        }
        taken.rows = Some(rows);
        taken
    }

    /// Returns the size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(Block::bytes).fold(0, usize::saturating_add)
    }

    /// Returns the piece, and the row in it, of sample `within` of the group. The sample must have been decoded.
    pub(super) fn place(&self, within: usize) -> (usize, usize) {
        let within = self.rows.as_ref().map_or(within, |rows| rows.partition_point(|&row| row < within));
        let piece = match &self.ends[..] {
            [_] => 0,
            ends => ends.partition_point(|&end| end <= within),
        };
        (piece, within - if piece == 0 { 0 } else { self.ends[piece - 1] })
    }
}

fn of_file(pool: &FilePool, file: usize, reason: &str) -> String {
    format!("{}: {reason}", pool.files().files()[file].path.display())
}

/// Reads the row groups of each file from the footers, and applies the filter.
fn find_groups(
    pool: &FilePool,
    columns: &Columns,
    options: &ParquetOptions,
    filter: Option<&Filter>,
    damages: Damages,
) -> Result<Vec<Vec<FoundGroup>>> {
    let files: Vec<usize> = (0..pool.files().files().len()).collect();
    let mut found = scan(&files, |&number| {
        let file = pool.file(number)?;
        let footer = Footer::read(&file, PageIndexPolicy::Skip)?;
        let others = Columns::new(&footer.schema, &options.columns);
        let others = others.map_err(|reason| refuse(&file, file.bytes(), reason))?;
        if let Some((column, first, other)) = columns.difference(&others) {
            let of_first = pool.files().files()[0].path.display();
            let reason = format!(
                "column `{column}` is {other}, but in {of_first} it is {first}; all files of a dataset must have the \
                 same columns"
            );
            return Err(refuse(&file, file.bytes(), reason));
        }
        let groups = footer.groups().iter();
        Ok(groups.map(|group| FoundGroup { rows: group.num_rows() as usize, left: KeptRows::All }).collect::<Vec<_>>())
    })?;
    let samples = found.iter().flatten().try_fold(0_usize, |samples, group| samples.checked_add(group.rows));
    if samples.is_none_or(|samples| isize::try_from(samples).is_err()) {
        let reason = "the footers declare more rows than can be counted".into();
        return Err(refuse(&*pool.file(0)?, 0, reason));
    }
    if let Some(filter) = filter {
        filter.apply(pool, &mut found, damages)?;
    }
    Ok(found)
}

/// Selects the samples `rows` of a row group of `all` rows. If there are `bits`, only rows with a set bit are samples.
fn selection(rows: &[usize], bits: Option<&[u64]>, all: usize) -> RowSelection {
    let left = left_rows(Some(rows), bits, all);
    let ranges = left.chunk_by(|a, b| a + 1 == *b).map(|run| Range { start: run[0], end: run[0] + run.len() });
    RowSelection::from_consecutive_ranges(ranges, all)
}

/// Returns the rows of the samples `rows`, or of all samples, in a row group of `all` rows.
fn left_rows(rows: Option<&[usize]>, bits: Option<&[u64]>, all: usize) -> Vec<usize> {
    let is_left = |&row: &usize| bits.is_none_or(|bits| bits[row / 64] >> (row % 64) & 1 == 1);
    let Some(rows) = rows else { return (0..all).filter(is_left).collect() };
    let mut wanted = rows.iter().peekable();
    let samples = (0..all).filter(is_left).enumerate();
    samples.filter(|(sample, _)| wanted.next_if(|row| *row == sample).is_some()).map(|(_, row)| row).collect()
}
