//! [`Mds`]: folders written by MosaicML's Streaming.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::column::MdsColumn;
use super::index::{ColumnForm, Packing, Shard, read_index};
use super::shard::{Unpacked, check, place, unpack};
use crate::dataset::Blocks;
use crate::dataset::format::block::cache::{BlockCache, CACHED_BYTES, Reads};
use crate::dataset::format::block::cache_info::CacheInfo;
use crate::dataset::format::field::decoding::{Decode, Decoded, Decoding};
use crate::dataset::format::field::typed_field::TypedField;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::{FilePool, OPEN_FILES};
use crate::dataset::format::file::recent_files::RecentFiles;
use crate::dataset::format::file::room::make_room;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::dataset::format::index::broken::is_damage;
use crate::dataset::format::index::damages::Damages;
use crate::dataset::format::index::file::digest_of;
use crate::dataset::format::index::whole_samples::WholeSamples;
use crate::dataset::forward_dataset::forward_dataset;
use crate::{Error, Result};

/// A folder in MDS: `index.json` (version 2), and the shards that it lists, raw or compressed with zstd.
///
/// Integers, floats, strings, bytes, JSON and arrays are supported; `jpeg` and `png` are the bytes of the files. If a
/// column does not specify the data type or shape of its arrays, the data type and all but the first axis are taken
/// from the first sample. Compressed shards of up to 1 GiB are unpacked into a cache of 256 MiB, or [another
/// size](Self::with_cache_bytes). Pickles are never loaded.
///
/// Source: the description of the format in the documentation of Streaming.
pub struct Mds {
    decoding: Decoding<Shards>,
}

/// How many samples per shard are tried if the first one is broken.
const LOOKED_AT: usize = 100;

pub(super) struct Shards {
    pub(super) pool: FilePool,
    pub(super) shards: Vec<Shard>,
    /// Per shard, the number of samples up to its end.
    pub(super) ends: Vec<usize>,
    forms: Vec<ColumnForm>,
    /// Per column of the shards: the number of its field, if it has one.
    columns: Vec<Option<usize>>,
    fields: Vec<MdsColumn>,
    typed: Vec<TypedField>,
    pub(super) unpacked: BlockCache<usize, Unpacked>,
}

/// A compressed shard of a batch.
struct InBatch {
    /// How many of its samples are in the batch and not counted yet.
    count: usize,
    found: Option<Arc<Unpacked>>,
}

impl Mds {
    /// Opens the folder at `folder`, with the columns called `fields`, or all of them, in the order of the index.
    ///
    /// # Errors
    /// [`Error::Io`] if a file can't be read; [`Error::Format`] if the index is not an MDS index, names files outside
    /// the folder, or gives a wrong size for a shard; [`Error::InvalidArgument`] for a column that does not exist or is
    /// not supported, such as pickles.
    pub fn open(folder: impl AsRef<Path>, fields: Option<&[String]>) -> Result<Self> {
        Self::open_with(folder.as_ref(), fields, Damages::Refuse)
    }

    /// The same without broken samples: all of a compressed shard that can't be unpacked, and those that a truncated
    /// raw shard has lost. This reads all samples once, and keeps the result in `index_folder`, or next to the first
    /// shard (in the user's cache if that isn't possible).
    ///
    /// # Errors
    /// As [`open`](Self::open), except for the sizes of shards.
    pub fn open_whole(
        folder: impl AsRef<Path>,
        fields: Option<&[String]>,
        index_folder: Option<PathBuf>,
    ) -> Result<WholeSamples<Self>> {
        let samples = Self::open_with(folder.as_ref(), fields, Damages::LeaveOut)?;
        let Shards { shards, forms, typed, pool, .. } = samples.decoding.decoder();
        // The pool does not contain the index of the folder, so its contents are part of the key.
        let (parameters, files) = (format!("{typed:?} {forms:?} {shards:?}"), pool.shared_files());
        let digest = format!("{:016x}", digest_of(parameters.as_bytes()));
        WholeSamples::open(samples, ("mds", &digest), &files, index_folder, |samples| samples.decoding.find_broken())
    }

    fn open_with(folder: &Path, fields: Option<&[String]>, damages: Damages) -> Result<Self> {
        let (index, mut shards, forms) = read_index(folder)?;
        let paths: Vec<PathBuf> = shards.iter().map(|shard| shard.path.clone()).collect();
        let pool = FilePool::new(Arc::new(SourceFiles::look(paths)?), OPEN_FILES);
        let mut ends = Vec::with_capacity(shards.len());
        for (shard, file) in shards.iter_mut().zip(pool.files().files()) {
            let end = ends.last().copied().unwrap_or(0_usize).checked_add(shard.samples);
            ends.push(end.ok_or_else(|| Error::Format {
                path: index.clone(),
                offset: 0,
                reason: "they have more samples than an index can count".into(),
            })?);
            if shard.packing == Packing::None && damages == Damages::LeaveOut {
                // Reads as much as is left.
                shard.bytes = shard.bytes.min(file.facts.bytes);
            }
            if shard.packing == Packing::None && damages == Damages::Refuse && file.facts.bytes != shard.bytes {
                let reason = format!("it has {} bytes, but the index declares {}", file.facts.bytes, shard.bytes);
                return Err(Error::Format { path: shard.path.clone(), offset: file.facts.bytes, reason });
            }
        }
        let invalid = |reason| Error::invalid("fields", reason);
        let names: Vec<String> = match fields {
            Some(fields) => fields.to_vec(),
            None => forms.iter().map(|form| form.name.clone()).collect(),
        };
        let mut columns = vec![None; forms.len()];
        for (number, name) in names.iter().enumerate() {
            let column = forms.iter().position(|form| form.name == *name).ok_or_else(|| {
                let all: Vec<&String> = forms.iter().map(|form| &form.name).take(20).collect();
                invalid(format!("there is no column `{name}`; the columns are {all:?}"))
            })?;
            columns[column] = Some(number);
        }
        let unpacked = BlockCache::new(CACHED_BYTES);
        let mut shards = Shards { pool, shards, ends, forms, columns, fields: Vec::new(), typed: Vec::new(), unpacked };
        shards.fields = shards.columns_of(&names, damages, |name, reason| {
            invalid(format!("column `{name}` of {}: {reason}", index.display()))
        })?;
        shards.typed = shards.fields.iter().map(|column| column.typed().clone()).collect();
        Ok(Self { decoding: Decoding::new(shards) })
    }

    /// Limits the cache of unpacked shards to `bytes` bytes instead of 256 MiB.
    #[must_use]
    pub fn with_cache_bytes(self, bytes: usize) -> Self {
        let shards = self.decoding.into_decoder();
        let unpacked = shards.unpacked.with_limit(bytes);
        Self { decoding: Decoding::new(Shards { unpacked, ..shards }) }
    }

    /// The fields of a sample, and what they hold.
    #[must_use]
    pub fn fields(&self) -> &[TypedField] {
        &self.decoding.decoder().typed
    }

    /// The number of samples in each shard, for samplers that read block by block.
    #[must_use]
    pub fn block_sizes(&self) -> Vec<usize> {
        self.decoding.decoder().shards.iter().map(|shard| shard.samples).collect()
    }

    /// Statistics of the cache of unpacked shards in this process. If the windows of
    /// [`BlockShuffleSampler`](crate::BlockShuffleSampler) fit into it, each shard is unpacked once per epoch.
    #[doc(hidden)]
    #[must_use]
    pub fn cache_info(&self) -> CacheInfo {
        self.decoding.decoder().unpacked.info()
    }
}

impl Shards {
    /// Returns the columns called `names`; if needed, from the values of the first sample, or, with
    /// [`Damages::LeaveOut`], from those of the first sample that is suitable.
    fn columns_of(
        &self,
        names: &[String],
        damages: Damages,
        refuse: impl Fn(&str, String) -> Error,
    ) -> Result<Vec<MdsColumn>> {
        let forms = names.iter().map(|name| self.forms.iter().find(|form| form.name == *name));
        let forms: Vec<&ColumnForm> = forms.map(|form| form.expect("it was looked for before")).collect();
        let columns = |first: &[Option<Vec<u8>>]| {
            let column = |(form, first): (&&ColumnForm, &Option<Vec<u8>>)| {
                MdsColumn::new(form, first.as_deref()).map_err(|reason| refuse(&form.name, reason))
            };
            forms.iter().zip(first).map(column).collect::<Result<Vec<_>>>()
        };
        if !forms.iter().any(|form| MdsColumn::needs_value(form)) || self.len() == 0 {
            return columns(&vec![None; names.len()]);
        }
        if damages == Damages::LeaveOut {
            for (number, samples) in self.parts().into_iter().enumerate() {
                if self.check_part(number).is_err_and(|error| is_damage(&error)) {
                    continue;
                }
                for index in samples.take(LOOKED_AT) {
                    match self.values_of(index, names.len()) {
                        Err(error) if is_damage(&error) => {}
                        first => {
                            if let Ok(columns) = columns(&first?) {
                                return Ok(columns);
                            }
                        }
                    }
                }
            }
        }
        columns(&self.values_of(0, names.len())?)
    }

    /// Returns the value of each field in sample `index`.
    fn values_of(&self, index: usize, fields: usize) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found = vec![None; fields];
        self.visit(&[index], |_, _, values| {
            for (number, value) in self.columns.iter().zip(values) {
                if let Some(number) = number {
                    found[*number] = Some(value.to_vec());
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads the samples at `indices` and calls `visit` for each, with the file, the offset of the sample in its shard,
    /// and its values by column.
    fn visit(&self, indices: &[usize], visit: impl FnMut(&OpenFile, u64, &[&[u8]]) -> Result<()>) -> Result<()> {
        let mut files = RecentFiles::of(&self.pool);
        let visited = self.visit_all(indices, &mut files, visit);
        files.checked(visited)
    }

    fn visit_all(
        &self,
        indices: &[usize],
        files: &mut RecentFiles<'_>,
        mut visit: impl FnMut(&OpenFile, u64, &[&[u8]]) -> Result<()>,
    ) -> Result<()> {
        // Errors are dropped: they recur when the samples are read.
        let mut batch = self.pool.page_cache().batch(|| drop(self.announce(indices)));
        let mut buffer = Vec::new();
        let mut packed = self.packed(indices)?;
        // The shard that was read last, and its bytes if it is compressed.
        let mut open: Option<(usize, Option<Arc<Unpacked>>)> = None;
        for &index in indices {
            let (number, shard, within) = self.find(index)?;
            let file = files.file(number)?;
            if open.as_ref().is_none_or(|(opened, _)| *opened != number) {
                open = Some((number, self.open_shard(number, file, &mut packed)?));
            }
            let unpacked = open.as_ref().and_then(|(_, unpacked)| unpacked.as_ref());
            let refuse = |offset, reason| Error::Format { path: file.source().path.clone(), offset, reason };
            let (offset, bytes) = match unpacked {
                Some(unpacked) => place(shard, within, |at, into| unpacked.read(at, into), refuse)?,
                None => place(shard, within, |at, into| file.copy_at(at, into), refuse)?,
            };
            let sample: &[u8] = match unpacked {
                Some(unpacked) => unpacked.bytes(offset, bytes),
                None => {
                    make_room(&mut buffer, bytes)?;
                    file.copy_at(offset, &mut buffer)?;
                    batch.was_read();
                    &buffer
                }
            };
            visit(file, offset, &self.values(sample).map_err(|reason| refuse(offset, reason))?)?;
        }
        Ok(())
    }

    /// Returns the bytes of shard `number`, which is `file`, if it is compressed; fails unless its header is valid.
    fn open_shard(
        &self,
        number: usize,
        file: &OpenFile,
        packed: &mut BTreeMap<usize, InBatch>,
    ) -> Result<Option<Arc<Unpacked>>> {
        let shard = &self.shards[number];
        let refuse = |offset, reason| Error::Format { path: file.source().path.clone(), offset, reason };
        let unpacked = match shard.packing {
            Packing::None => None,
            Packing::Zstd => Some(self.unpacked(number, packed, || unpack(file, shard))?),
        };
        match &unpacked {
            Some(unpacked) => check(shard, |at, into| unpacked.read(at, into), refuse)?,
            None => check(shard, |at, into| file.copy_at(at, into), refuse)?,
        }
        Ok(unpacked)
    }

    /// Returns, by number, the compressed shards of the samples at `indices`: how many of their samples are in the
    /// batch and not read yet, and their bytes if they are cached. Cached shards are claimed first, because unpacking
    /// others may evict them.
    fn packed(&self, indices: &[usize]) -> Result<BTreeMap<usize, InBatch>> {
        let mut packed = BTreeMap::new();
        for &index in indices {
            let (number, shard, _) = self.find(index)?;
            if shard.packing == Packing::Zstd {
                packed.entry(number).or_insert(InBatch { count: 0, found: None }).count += 1;
            }
        }
        for (number, of_shard) in &mut packed {
            let reads = Reads::Counted { now: of_shard.count, all: self.shards[*number].samples };
            of_shard.found = self.unpacked.peek(number, reads);
            if of_shard.found.is_some() {
                of_shard.count = 0;
            }
        }
        Ok(packed)
    }

    /// Returns shard `number`, unpacked.
    fn unpacked(
        &self,
        number: usize,
        packed: &mut BTreeMap<usize, InBatch>,
        unpack: impl FnOnce() -> Result<(Unpacked, usize)>,
    ) -> Result<Arc<Unpacked>> {
        let of_shard = packed.get_mut(&number);
        if let Some(found) = of_shard.as_ref().and_then(|of_shard| of_shard.found.as_ref()) {
            return Ok(Arc::clone(found));
        }
        // Counted once. Not stored in `packed`, so that a scattered batch holds no more than the cache may.
        let now = of_shard.map_or(0, |of_shard| std::mem::take(&mut of_shard.count));
        self.unpacked.read(&number, Reads::Counted { now, all: self.shards[number].samples }, unpack)
    }

    /// Asks the operating system to start reading the samples at `indices` that are not compressed.
    fn announce(&self, indices: &[usize]) -> Result<()> {
        let mut files = RecentFiles::of(&self.pool);
        for &index in indices {
            let (number, shard, within) = self.find(index)?;
            if shard.packing == Packing::None {
                let file = files.file(number)?;
                let refuse = |offset, reason| Error::Format { path: file.source().path.clone(), offset, reason };
                let (offset, bytes) = place(shard, within, |at, into| file.copy_at(at, into), refuse)?;
                file.will_read(offset, bytes as u64);
            }
        }
        Ok(())
    }

    /// Returns the values of a sample by column: it begins with the sizes of the variable-size ones, then come all.
    fn values<'a>(&self, sample: &'a [u8]) -> std::result::Result<Vec<&'a [u8]>, String> {
        let variable = self.forms.iter().filter(|form| form.bytes.is_none()).count();
        let cut = || "the sample is shorter than its columns require".to_owned();
        let (head, mut rest) = sample.split_at_checked(variable * 4).ok_or_else(cut)?;
        let mut sizes = head.as_chunks::<4>().0.iter().map(|size| u64::from(u32::from_le_bytes(*size)));
        let mut values = Vec::with_capacity(self.forms.len());
        for form in &self.forms {
            let size = form.bytes.or_else(|| sizes.next()).and_then(|size| usize::try_from(size).ok());
            let (value, after) = size.and_then(|size| rest.split_at_checked(size)).ok_or_else(cut)?;
            values.push(value);
            rest = after;
        }
        if rest.is_empty() {
            Ok(values)
        } else {
            Err(format!("{} bytes of the sample belong to no column", rest.len()))
        }
    }
}

impl Decode for Shards {
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn fields(&self) -> &[TypedField] {
        &self.typed
    }

    fn parts(&self) -> Vec<Range<usize>> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end).collect()
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        self.shards.iter().any(|shard| shard.packing != Packing::None).then_some(self)
    }

    fn origin(&self, index: usize) -> Option<String> {
        self.place_of(index)
    }

    fn check_part(&self, part: usize) -> Result<()> {
        let mut files = RecentFiles::of(&self.pool);
        let file = files.file(part)?;
        let checked = self.open_shard(part, file, &mut BTreeMap::new()).map(drop);
        files.checked(checked)
    }

    fn decode(&self, indices: &[usize], into: &mut Decoded) -> Result<()> {
        self.visit(indices, |file, offset, values| {
            let refuse = |reason| Error::Format { path: file.source().path.clone(), offset, reason };
            for (number, value) in self.columns.iter().zip(values) {
                let Some(number) = *number else { continue };
                let pushed = self.fields[number].push(value, &mut into.column(number).bytes);
                pushed.map_err(|reason| refuse(format!("column `{}`: {reason}", self.typed[number].field().name())))?;
            }
            into.end_sample(&self.typed).map_err(refuse)
        })
    }
}

forward_dataset!([] Mds, self => self.decoding);
