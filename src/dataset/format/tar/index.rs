//! [`TarIndex`]: the positions of all members of the samples of some archives.

use super::members::TarEnd;
use super::shard::TarShard;
use crate::dataset::format::file::pool::FilePool;
use crate::dataset::format::file::scan::scan;
use crate::dataset::format::index::columns::{ColumnRole, IndexColumn};
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::place::IndexPlace;
use crate::dataset::format::index::sample_index::{SampleIndex, partition_point};
use crate::{Error, Result};

/// The format of the index, with a version for the meaning of its columns.
const FORMAT: &str = "tar 2";

// Strings take two columns: their end offsets, and their bytes.
const SAMPLE_ENDS: usize = 0;
const MEMBER_DATA: usize = 1;
const MEMBER_BYTES: usize = 2;
const MEMBER_EXTENSIONS: usize = 3;
const KEYS: usize = 4;
const DAMAGES: usize = 6;
const EXTENSIONS: usize = 8;
const ROLES: [ColumnRole; 10] = [
    ColumnRole::Ends { of: MEMBER_DATA },
    ColumnRole::Plain,
    ColumnRole::Plain,
    ColumnRole::Codes { texts: EXTENSIONS },
    ColumnRole::Ends { of: KEYS + 1 },
    ColumnRole::Plain,
    ColumnRole::Ends { of: DAMAGES + 1 },
    ColumnRole::Plain,
    ColumnRole::OfTexts,
    ColumnRole::OfTexts,
];

/// The index of a list of archives, in a file next to them or in memory.
pub(super) struct TarIndex {
    index: SampleIndex,
    /// Per archive, the number of samples up to its end.
    file_ends: Vec<usize>,
    extensions: Vec<Vec<u8>>,
}

/// The position of a member in its archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TarPlace {
    pub(super) data: u64,
    pub(super) bytes: u64,
}

impl TarIndex {
    /// Opens the index of the archives in `pool`, or builds it by reading all headers of the archives that no index
    /// contains yet, several archives in parallel.
    pub(super) fn open(pool: &FilePool, end: TarEnd, damages: Damages, place: &IndexPlace) -> Result<Self> {
        let parameters = format!("{end:?} {damages:?}");
        let index = SampleIndex::open_or_scan(pool.files(), (FORMAT, &parameters), place, &ROLES, |files| {
            scan(files, |&number| Ok(columns(&TarShard::scan(&*pool.file(number)?, end, damages)?)))
        })?;
        if index.columns() != ROLES.len() {
            return Err(damaged());
        }
        let extensions =
            (0..index.len(EXTENSIONS)).map(|row| read_text(&index, EXTENSIONS, row)).collect::<Result<_>>()?;
        let files = 0..pool.files().files().len();
        let file_ends = files.map(|file| index.file_end(SAMPLE_ENDS, file)).collect::<Result<_>>()?;
        Ok(Self { index, file_ends, extensions })
    }

    pub(super) fn len(&self) -> usize {
        self.index.len(SAMPLE_ENDS)
    }

    /// All extensions, in lower case; members refer to them by number.
    pub(super) fn extensions(&self) -> &[Vec<u8>] {
        &self.extensions
    }

    /// Returns the number of samples in each archive.
    pub(super) fn samples_by_file(&self) -> Vec<usize> {
        let mut start = 0;
        self.file_ends.iter().map(|&end| end.saturating_sub(std::mem::replace(&mut start, end))).collect()
    }

    /// Returns, per file, how many of its samples are in the first column of `kept`, which is sorted.
    pub(super) fn kept_by_file(&self, kept: &SampleIndex) -> Result<Vec<usize>> {
        let mut start = 0;
        let sizes = self.file_ends.iter().map(|&end| {
            let next = partition_point(start..kept.len(0), |row| Ok(kept.get(0, row)? < end as u64))?;
            Ok(next - std::mem::replace(&mut start, next))
        });
        sizes.collect()
    }

    /// Returns the result of reading a batch, unless the index was truncated, which would explain any other error.
    pub(super) fn checked(&self, read: Result<()>) -> Result<()> {
        self.index.check_whole()?;
        read
    }

    /// Returns the extension with this number.
    pub(super) fn extension(&self, number: u32) -> Result<&[u8]> {
        self.extensions.get(number as usize).map(Vec::as_slice).ok_or_else(damaged)
    }

    /// Returns what was left out of the archives, and why.
    pub(super) fn damages(&self) -> Result<Vec<String>> {
        let texts = (0..self.index.len(DAMAGES)).map(|row| read_text(&self.index, DAMAGES, row));
        texts.map(|text| Ok(String::from_utf8_lossy(&text?).into_owned())).collect()
    }

    /// Returns the number of the file that contains sample `sample`.
    pub(super) fn file(&self, sample: usize) -> Result<usize> {
        let file = self.file_ends.partition_point(|&end| end <= sample);
        if file < self.file_ends.len() { Ok(file) } else { Err(damaged()) }
    }

    pub(super) fn key(&self, sample: usize) -> Result<Vec<u8>> {
        read_text(&self.index, KEYS, sample)
    }

    /// The same, into a buffer of the size that [`key_bytes`](Self::key_bytes) returns.
    pub(super) fn read_key(&self, sample: usize, into: &mut [u8]) -> Result<()> {
        let (start, end) = bounds(&self.index, KEYS, sample)?;
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Ok(end)) if end - start == into.len() => self.index.copy_bytes(KEYS + 1, start, into),
            _ => Err(damaged()),
        }
    }

    /// The length of a key, in bytes.
    pub(super) fn key_bytes(&self, sample: usize) -> Result<usize> {
        let (start, end) = bounds(&self.index, KEYS, sample)?;
        Ok(usize::try_from(end - start).unwrap_or(usize::MAX))
    }

    /// Reads the index entries of the members of `sample`.
    pub(super) fn read_sample(&self, sample: usize, into: &mut TarSample) -> Result<()> {
        let (start, end) = bounds(&self.index, SAMPLE_ENDS, sample)?;
        // Checked before allocating: a damaged index may claim anything.
        let members = [MEMBER_EXTENSIONS, MEMBER_DATA, MEMBER_BYTES].map(|column| self.index.len(column));
        let (start, end) = match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Ok(end)) if members.iter().all(|&len| end <= len) => (start, end),
            _ => return Err(damaged()),
        };
        for (numbers, column) in
            [(&mut into.extensions, MEMBER_EXTENSIONS), (&mut into.data, MEMBER_DATA), (&mut into.bytes, MEMBER_BYTES)]
        {
            numbers.clear();
            numbers.resize(end - start, 0);
            self.index.get_range(column, start, numbers)?;
        }
        Ok(())
    }
}

/// The members of one sample; reused for the next one.
#[derive(Default)]
pub(super) struct TarSample {
    extensions: Vec<u64>,
    data: Vec<u64>,
    bytes: Vec<u64>,
}

impl TarSample {
    /// The number of each member's extension.
    pub(super) fn extensions(&self) -> impl Iterator<Item = u32> {
        self.extensions.iter().map(|&extension| extension as u32)
    }

    /// Returns the position of the member whose extension comes first in `wanted`.
    pub(super) fn member(&self, wanted: &[u32]) -> Option<TarPlace> {
        let member = wanted.iter().find_map(|&wanted| self.extensions().position(|extension| extension == wanted))?;
        Some(TarPlace { data: self.data[member], bytes: self.bytes[member] })
    }
}

/// Returns the columns of one archive.
fn columns(shard: &TarShard) -> Vec<IndexColumn> {
    let mut sample_ends = Vec::with_capacity(shard.keys.len());
    let mut members = shard.members.iter().peekable();
    let mut end = 0;
    for sample in 0..shard.keys.len() {
        while members.next_if(|member| member.sample == sample).is_some() {
            end += 1;
        }
        sample_ends.push(end);
    }
    let damages: Vec<_> = shard.damages.iter().map(|damage| damage.to_string().into_bytes()).collect();
    let mut columns = vec![
        IndexColumn::U64(sample_ends),
        IndexColumn::U64(shard.members.iter().map(|member| member.data).collect()),
        IndexColumn::U64(shard.members.iter().map(|member| member.bytes).collect()),
        IndexColumn::U32(shard.members.iter().map(|member| member.extension).collect()),
    ];
    for texts in [&shard.keys, &damages, &shard.extensions] {
        let mut end = 0;
        let ends = texts.iter().map(|text| {
            end += text.len() as u64;
            end
        });
        columns.push(IndexColumn::U64(ends.collect()));
        columns.push(IndexColumn::U8(texts.concat()));
    }
    columns
}

fn damaged() -> Error {
    Error::invalid("index", "the index of the archives is damaged; remove it, and it is created again")
}

/// Returns the bounds of row `row` in a column of end offsets.
fn bounds(index: &SampleIndex, ends: usize, row: usize) -> Result<(u64, u64)> {
    let mut both = [0; 2];
    match row {
        0 => both[1] = index.get(ends, 0)?,
        _ => index.get_range(ends, row - 1, &mut both)?,
    }
    if both[0] > both[1] {
        return Err(damaged());
    }
    Ok((both[0], both[1]))
}

/// Returns string `row` of the two columns from `column` on.
fn read_text(index: &SampleIndex, column: usize, row: usize) -> Result<Vec<u8>> {
    let (start, end) = bounds(index, column, row)?;
    let place = |place| usize::try_from(place).unwrap_or(usize::MAX);
    index.get_bytes(column + 1, place(start)..place(end))
}
