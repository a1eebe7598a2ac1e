//! [`Groups`]: maps samples to row groups and files, by arithmetic.

use std::path::PathBuf;

use crate::Result;
use crate::dataset::format::block::starts::BlockStarts;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::index::place::IndexPlace;
use crate::dataset::format::index::sample_index::{IndexColumn, SampleIndex};

/// From this many files on, the row counts in their footers are kept in an index.
const MANY_FILES: usize = 64;

/// A row group, as found by a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundGroup {
    pub(super) rows: usize,
    /// The rows that a filter keeps.
    pub(super) left: KeptRows,
}

/// The rows of a row group that a filter keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeptRows {
    All,
    None,
    /// The number of rows, and a bitmap of all rows in 64-bit words.
    Some(usize, Vec<u64>),
}

/// Columns of the index. By file: the cumulative number of groups. By group: the cumulative numbers of samples and of
/// bitmap words. Then the bitmap words.
const GROUP_ENDS: usize = 0;
const SAMPLE_ENDS: usize = 1;
const WORD_ENDS: usize = 2;
const WORDS: usize = 3;

/// The row groups of consecutive files.
pub(crate) struct Groups {
    /// By file: the cumulative number of groups.
    group_ends: Vec<usize>,
    /// Maps samples to groups.
    pub(crate) starts: BlockStarts,
    index: SampleIndex,
}

/// The location of a row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupPlace {
    pub(super) file: usize,
    pub(super) in_file: usize,
}

impl Groups {
    /// Loads the groups from an index, or else calls `scan`, which returns them by file. `parameters` is what they
    /// depend on besides the files. An index is kept for many files, or if `is_costly`.
    pub(crate) fn open(
        pool: &FilePool,
        parameters: &str,
        index_folder: Option<PathBuf>,
        is_costly: bool,
        scan: impl FnOnce() -> Result<Vec<Vec<FoundGroup>>>,
    ) -> Result<Self> {
        let place = IndexPlace::new(index_folder)?;
        let make = || Ok(columns(&scan()?));
        let index = match is_costly || pool.files().files().len() >= MANY_FILES {
            false => SampleIndex::in_memory(make()?, 0)?,
            true => SampleIndex::open_or_build(pool.files(), ("parquet 1", parameters), &place, make)?,
        };
        let damaged = || index.mismatch();
        if index.columns() != 4 || index.len(GROUP_ENDS) != pool.files().files().len() {
            return Err(damaged());
        }
        let numbers = |column| -> Result<Vec<usize>> {
            let mut words = vec![0; index.len(column)];
            index.get_range(column, 0, &mut words)?;
            Ok(words.into_iter().map(|word| word as usize).collect())
        };
        let (group_ends, sample_ends) = (numbers(GROUP_ENDS)?, numbers(SAMPLE_ENDS)?);
        let fits = group_ends.is_sorted()
            && sample_ends.is_sorted()
            && group_ends.last().copied().unwrap_or(0) == sample_ends.len()
            && index.len(WORD_ENDS) == sample_ends.len();
        if !fits {
            return Err(damaged());
        }
        Ok(Self { group_ends, starts: BlockStarts::new(sample_ends), index })
    }

    pub(crate) fn place(&self, group: usize) -> GroupPlace {
        let file = self.group_ends.partition_point(|&end| end <= group);
        GroupPlace { file, in_file: group - if file == 0 { 0 } else { self.group_ends[file - 1] } }
    }

    /// Returns the bitmap of the `rows` rows of `group`, if a filter keeps only some of them.
    pub(crate) fn bits(&self, group: usize, rows: usize) -> Result<Option<Vec<u64>>> {
        let start = if group == 0 { 0 } else { self.index.get(WORD_ENDS, group - 1)? };
        let count = self.index.get(WORD_ENDS, group)?.saturating_sub(start) as usize;
        if count == 0 {
            return Ok(None);
        }
        if count != rows.div_ceil(64) {
            let reason = format!(
                "the index has bits for {count} times 64 rows, but the row group has {rows} rows; remove the index"
            );
            return Err(self.index.changed(reason));
        }
        let mut words = vec![0; count];
        self.index.get_range(WORDS, start as usize, &mut words)?;
        Ok(Some(words))
    }
}

fn columns(files: &[Vec<FoundGroup>]) -> Vec<IndexColumn> {
    let (mut group_ends, mut sample_ends) = (Vec::with_capacity(files.len()), Vec::new());
    let (mut word_ends, mut words) = (Vec::new(), Vec::new());
    let mut samples = 0_u64;
    for groups in files {
        for group in groups {
            let left = match &group.left {
                KeptRows::All => group.rows,
                KeptRows::None => 0,
                KeptRows::Some(left, bits) => {
                    words.extend(bits);
                    *left
                }
            };
            samples = samples.saturating_add(left as u64);
            sample_ends.push(samples);
            word_ends.push(words.len() as u64);
        }
        group_ends.push(sample_ends.len() as u64);
    }
    [group_ends, sample_ends, word_ends, words].map(IndexColumn::U64).into()
}
