//! [`TarIndex`]: where every member of every sample of some archives lies.

use std::collections::HashMap;

use super::file_pool::FilePool;
use super::index_place::IndexPlace;
use super::sample_index::{IndexColumn, SampleIndex};
use super::scan::scan;
use super::tar_members::TarEnd;
use super::tar_shard::{TarDamages, TarShard};
use crate::{Error, Result};

/// The format of the index, with the version of what its columns mean.
const FORMAT: &str = "tar 1";

// Texts are two columns: where each one ends, in bytes, and four bytes of them all in each number.
const FILE_ENDS: usize = 0;
const SAMPLE_ENDS: usize = 1;
const MEMBER_DATA: usize = 2;
const MEMBER_BYTES: usize = 3;
const MEMBER_EXTENSIONS: usize = 4;
const KEYS: usize = 5;
const EXTENSIONS: usize = 7;
const DAMAGES: usize = 9;
const COLUMNS: usize = 11;

/// The index of a list of archives, in a file beside them or in memory.
pub(super) struct TarIndex {
    index: SampleIndex,
    extensions: Vec<Vec<u8>>,
}

/// Where a member lies in the file of its sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TarPlace {
    pub(super) data: u64,
    pub(super) bytes: u64,
}

impl TarIndex {
    /// Opens the index of the archives in `pool`, or makes it by reading all headers once, several archives at a time.
    pub(super) fn open(pool: &FilePool, end: TarEnd, damages: TarDamages, place: &IndexPlace) -> Result<Self> {
        let parameters = format!("{end:?} {damages:?}");
        let index = SampleIndex::open_or_build(pool.files(), (FORMAT, &parameters), place, || {
            let numbers: Vec<usize> = (0..pool.files().files().len()).collect();
            let shards = scan(&numbers, |&number| TarShard::scan(&*pool.file(number)?, end, damages))?;
            Ok(columns(shards))
        })?;
        let text = "the index of the archives is not what was written: remove it, and it is made anew";
        let broken = || Error::InvalidArgument { argument: "index", reason: text.into() };
        if index.columns() != COLUMNS || index.len(FILE_ENDS) != pool.files().files().len() {
            return Err(broken());
        }
        let extensions =
            (0..index.len(EXTENSIONS)).map(|row| read_text(&index, EXTENSIONS, row)).collect::<Result<_>>()?;
        Ok(Self { index, extensions })
    }

    pub(super) fn len(&self) -> usize {
        self.index.len(SAMPLE_ENDS)
    }

    /// The extensions that there are, in lower case; a member has the number of its own.
    pub(super) fn extensions(&self) -> &[Vec<u8>] {
        &self.extensions
    }

    /// What was left out of the archives, and why.
    pub(super) fn damages(&self) -> Result<Vec<String>> {
        let texts = (0..self.index.len(DAMAGES)).map(|row| read_text(&self.index, DAMAGES, row));
        texts.map(|text| Ok(String::from_utf8_lossy(&text?).into_owned())).collect()
    }

    /// The number of the file that sample `sample` lies in.
    pub(super) fn file(&self, sample: usize) -> Result<usize> {
        Ok(self.index.find(FILE_ENDS, sample as u64)?.0)
    }

    pub(super) fn key(&self, sample: usize) -> Result<Vec<u8>> {
        read_text(&self.index, KEYS, sample)
    }

    /// The length of a key, in bytes.
    pub(super) fn key_bytes(&self, sample: usize) -> Result<usize> {
        let (start, end) = bounds(&self.index, KEYS, sample)?;
        Ok(usize::try_from(end - start).unwrap_or(usize::MAX))
    }

    /// The extensions of the members of `sample`, and where they lie.
    pub(super) fn members(&self, sample: usize) -> Result<impl Iterator<Item = Result<(u32, TarPlace)>>> {
        let (start, end) = bounds(&self.index, SAMPLE_ENDS, sample)?;
        Ok((start..end).map(|member| {
            let member = usize::try_from(member).unwrap_or(usize::MAX);
            let extension = self.index.get(MEMBER_EXTENSIONS, member)? as u32;
            let (data, bytes) = (self.index.get(MEMBER_DATA, member)?, self.index.get(MEMBER_BYTES, member)?);
            Ok((extension, TarPlace { data, bytes }))
        }))
    }

    /// The member of `sample` whose extension comes first in `wanted`.
    pub(super) fn member(&self, sample: usize, wanted: &[u32]) -> Result<Option<TarPlace>> {
        let (start, end) = bounds(&self.index, SAMPLE_ENDS, sample)?;
        let mut best = None;
        for member in start..end {
            let member = usize::try_from(member).unwrap_or(usize::MAX);
            let extension = self.index.get(MEMBER_EXTENSIONS, member)? as u32;
            if let Some(rank) = wanted.iter().position(|&other| other == extension)
                && best.is_none_or(|(other, _)| rank < other)
            {
                best = Some((rank, member));
                if rank == 0 {
                    break;
                }
            }
        }
        best.map_or(Ok(None), |(_, member)| {
            let (data, bytes) = (self.index.get(MEMBER_DATA, member)?, self.index.get(MEMBER_BYTES, member)?);
            Ok(Some(TarPlace { data, bytes }))
        })
    }
}

/// The columns of all archives, one after the other.
fn columns(shards: Vec<TarShard>) -> Vec<IndexColumn> {
    let samples = shards.iter().map(|shard| shard.keys.len()).sum();
    let members = shards.iter().map(|shard| shard.members.len()).sum();
    let mut file_ends = Vec::with_capacity(shards.len());
    let mut sample_ends = Vec::with_capacity(samples);
    let (mut data, mut bytes) = (Vec::with_capacity(members), Vec::with_capacity(members));
    let mut member_extensions = Vec::with_capacity(members);
    let (mut keys, mut extensions, mut damages) = (Texts::default(), Texts::default(), Texts::default());
    let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
    for shard in shards {
        let of_all: Vec<u32> = shard
            .extensions
            .into_iter()
            .map(|extension| {
                let next = numbers.len() as u32;
                if !numbers.contains_key(&extension) {
                    extensions.push(&extension);
                }
                *numbers.entry(extension).or_insert(next)
            })
            .collect();
        let before = data.len() as u64;
        let mut member = shard.members.iter().peekable();
        let mut count = 0;
        for (sample, key) in shard.keys.iter().enumerate() {
            while let Some(place) = member.next_if(|place| place.sample == sample) {
                data.push(place.data);
                bytes.push(place.bytes);
                member_extensions.push(of_all[place.extension as usize]);
                count += 1;
            }
            sample_ends.push(before + count);
            keys.push(key);
        }
        file_ends.push(sample_ends.len() as u64);
        shard.damages.iter().for_each(|damage| damages.push(damage.to_string().as_bytes()));
    }
    let mut columns = vec![
        IndexColumn::U64(file_ends),
        IndexColumn::U64(sample_ends),
        IndexColumn::U64(data),
        IndexColumn::U64(bytes),
        IndexColumn::U32(member_extensions),
    ];
    [keys, extensions, damages].into_iter().for_each(|texts| columns.extend(texts.columns()));
    columns
}

/// Texts one after the other.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend(text);
        self.ends.push(self.bytes.len() as u64);
    }

    fn columns(mut self) -> [IndexColumn; 2] {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let words = self.bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        [IndexColumn::U64(self.ends), IndexColumn::U32(words.collect())]
    }
}

/// From where to where row `row` reaches, in a column of ends.
fn bounds(index: &SampleIndex, ends: usize, row: usize) -> Result<(u64, u64)> {
    let mut both = [0; 2];
    match row {
        0 => both[1] = index.get(ends, 0)?,
        _ => index.get_range(ends, row - 1, &mut both)?,
    }
    if both[0] > both[1] {
        let reason = "the index of the archives is damaged: remove it, and it is made anew".into();
        return Err(Error::InvalidArgument { argument: "index", reason });
    }
    Ok((both[0], both[1]))
}

/// Text `row` of the two columns from `column` on.
fn read_text(index: &SampleIndex, column: usize, row: usize) -> Result<Vec<u8>> {
    let (start, end) = bounds(index, column, row)?;
    let out_of_range = |_| Error::IndexOutOfRange { index: row, len: index.len(column) };
    let (start, end) = (usize::try_from(start).map_err(out_of_range)?, usize::try_from(end).map_err(out_of_range)?);
    let (first, last) = (start / 4, end.div_ceil(4));
    if last > index.len(column + 1) {
        return Err(Error::IndexOutOfRange { index: last, len: index.len(column + 1) });
    }
    let mut words = vec![0; last - first];
    index.get_range(column + 1, first, &mut words)?;
    let mut bytes: Vec<u8> = words.into_iter().flat_map(|word| (word as u32).to_le_bytes()).collect();
    bytes.truncate(end - first * 4);
    bytes.drain(..start - first * 4);
    Ok(bytes)
}
