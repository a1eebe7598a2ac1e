//! [`Spans`]: samples that are byte ranges of files, found by a scan whose result is stored.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::columns::{ColumnRole, IndexColumn};
use super::place::{IndexPlace, SMALL};
use super::sample_index::SampleIndex;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::{FilePool, OPEN_FILES};
use crate::dataset::format::file::recent_files::RecentFiles;
use crate::dataset::format::file::room::make_room;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::{Error, Result, watch};

/// Samples that are adjacent both in a batch and in a file are read together, up to this many bytes.
const READ_TOGETHER: u64 = 1 << 20;

/// The largest gap between two samples that are read together, in bytes.
const LARGEST_GAP: u64 = 4096;

/// The byte range of a sample that a scan has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    /// A `u32`, which limits a sample to 4 GiB.
    pub(crate) bytes: u32,
}

impl Span {
    /// The range from `start` to `end` of `file`.
    pub(crate) fn new(file: &OpenFile, start: u64, end: u64) -> Result<Self> {
        match u32::try_from(end - start) {
            Ok(bytes) => Ok(Self { offset: start, bytes }),
            Err(_) => {
                let reason = format!("the sample has {} bytes, but at most 4 GiB are supported", end - start);
                Err(Error::Format { path: file.source().path.clone(), offset: start, reason })
            }
        }
    }

    fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes))
    }
}

/// Columns of the index: per sample, its offset and its size in bytes.
const OFFSETS: usize = 0;
const BYTES: usize = 1;
const ROLES: [ColumnRole; 2] = [ColumnRole::Plain, ColumnRole::Plain];

/// Spans that are converted between two checks for signals.
const BLOCK: usize = 1 << 16;

/// The samples of some files, one file after the other.
pub(crate) struct Spans {
    pool: FilePool,
    index: SampleIndex,
}

impl Spans {
    /// Opens the samples of the files at `paths`; `scan` finds those of the files that no existing index contains.
    ///
    /// `kind` is the format with the version of its scan, and what else the scan depends on. The index of large files
    /// is kept in `index_folder`, or next to the first file (in the user's cache if that isn't possible).
    pub(crate) fn open(
        paths: Vec<PathBuf>,
        kind: (&str, &str),
        index_folder: Option<PathBuf>,
        scan: impl Fn(&FilePool) -> Result<Vec<Vec<Span>>>,
    ) -> Result<Self> {
        let place = IndexPlace::new(index_folder)?;
        let files = Arc::new(SourceFiles::look(paths)?);
        let pool = FilePool::new(Arc::clone(&files), OPEN_FILES);
        let make = |numbers: &[usize]| {
            let unknown = FilePool::new(Arc::new(files.subset(numbers)), OPEN_FILES);
            let spans = scan(&unknown)?;
            // Fails if a file was written to during the scan.
            (0..spans.len()).try_for_each(|number| unknown.file(number).map(drop))?;
            // Frees each list once it is converted: freeing all of them at once would take long.
            spans.into_iter().map(columns).collect()
        };
        let index = match files.bytes() < SMALL {
            true => SampleIndex::scan_in_memory(&files, &ROLES, make)?,
            false => SampleIndex::open_or_scan(&files, kind, &place, &ROLES, make)?,
        };
        let spans = Self { pool, index };
        // The index file may be damaged.
        let last = files.files().len().checked_sub(1);
        if spans.index.columns() != ROLES.len()
            || spans.index.len(OFFSETS) != spans.index.len(BYTES)
            || last.map_or(Ok(0), |last| spans.index.file_end(OFFSETS, last))? != spans.len()
        {
            return Err(spans.index.mismatch());
        }
        Ok(spans)
    }

    /// The number of samples.
    pub(crate) fn len(&self) -> usize {
        self.index.len(OFFSETS)
    }

    pub(crate) fn pool(&self) -> &FilePool {
        &self.pool
    }

    /// Returns, per file, where its last sample ends.
    pub(crate) fn ends(&self) -> Result<Vec<u64>> {
        let (mut ends, mut start) = (Vec::new(), 0);
        for number in 0..self.pool.files().files().len() {
            let end = self.index.file_end(OFFSETS, number)?;
            ends.push(if end > start { self.span(end - 1)?.end() } else { 0 });
            start = end;
        }
        Ok(ends)
    }

    fn span(&self, index: usize) -> Result<Span> {
        let bytes = self.index.get(BYTES, index)?;
        Ok(Span { offset: self.index.get(OFFSETS, index)?, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) })
    }

    /// Reads the samples at `indices` and calls `visit` for each, in order, with the file, the offset of the sample,
    /// and its bytes.
    ///
    /// # Errors
    /// Those of `visit`, and those of reading a file.
    pub(crate) fn visit(
        &self,
        indices: &[usize],
        visit: impl FnMut(&OpenFile, u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut files = RecentFiles::of(&self.pool);
        let visited = self.visit_all(indices, &mut files, visit);
        let visited = files.checked(visited);
        // Checked first: a truncated index explains any other error.
        self.index.check_whole()?;
        visited
    }

    /// Asks the operating system to start reading the samples at `indices`.
    fn announce(&self, indices: &[usize]) -> Result<()> {
        let mut files = RecentFiles::of(&self.pool);
        let mut current = (0, 0..0);
        for &index in indices {
            if !current.1.contains(&index) {
                current = self.file_of(index)?;
            }
            let span = self.span(index)?;
            files.file(current.0)?.will_read(span.offset, u64::from(span.bytes));
        }
        Ok(())
    }

    /// Returns the number of the file that contains sample `index`, and the range of samples in that file.
    fn file_of(&self, index: usize) -> Result<(usize, Range<usize>)> {
        let (number, start) = self.index.file_of(OFFSETS, index)?;
        Ok((number, start..self.index.file_end(OFFSETS, number)?))
    }

    fn visit_all(
        &self,
        indices: &[usize],
        files: &mut RecentFiles<'_>,
        mut visit: impl FnMut(&OpenFile, u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        // Errors are dropped: they recur when the samples are read.
        let mut batch = self.pool.page_cache().batch(|| drop(self.announce(indices)));
        let mut buffer = Vec::new();
        let mut current = (0, 0..0);
        let mut run: Vec<Span> = Vec::new();
        let mut row = 0;
        while row < indices.len() {
            let index = indices[row];
            if index >= self.len() {
                return Err(Error::IndexOutOfRange { index, len: self.len() });
            }
            if !current.1.contains(&index) {
                current = self.file_of(index)?;
            }
            let (number, samples) = &current;
            let file = files.file(*number)?;
            let first = self.span(index)?;
            run.clear();
            run.push(first);
            let mut end = first.end();
            for (next, expected) in indices[row + 1..].iter().zip(index + 1..samples.end) {
                if *next != expected || end - first.offset > READ_TOGETHER {
                    break;
                }
                let span = self.span(*next)?;
                if span.offset < end || span.offset - end > LARGEST_GAP {
                    break;
                }
                end = span.end();
                run.push(span);
            }
            if end > file.bytes() {
                // Checked before allocating, because a damaged index may claim any size.
                file.read_at(first.offset, &mut [])?;
                let reason = format!(
                    "the index places a sample of {} up to byte {end}, but the file has {} bytes; the index is \
                     damaged, remove it",
                    file.source().path.display(),
                    file.bytes()
                );
                return Err(Error::invalid("index", reason));
            }
            make_room(&mut buffer, (end - first.offset) as usize)?;
            file.copy_at(first.offset, &mut buffer)?;
            batch.was_read();
            for span in &run {
                let start = (span.offset - first.offset) as usize;
                visit(file, span.offset, &buffer[start..start + span.bytes as usize])?;
            }
            row += run.len();
        }
        Ok(())
    }
}

fn columns(spans: Vec<Span>) -> Result<Vec<IndexColumn>> {
    let (mut offsets, mut bytes) = (Vec::with_capacity(spans.len()), Vec::with_capacity(spans.len()));
    for block in spans.chunks(BLOCK) {
        watch::advance(0)?;
        offsets.extend(block.iter().map(|span| span.offset));
        bytes.extend(block.iter().map(|span| span.bytes));
    }
    Ok(vec![IndexColumn::U64(offsets), IndexColumn::U32(bytes)])
}
