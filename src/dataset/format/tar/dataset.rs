//! [`Tar`]: archives whose members form samples by their names, as in WebDataset.

use std::path::PathBuf;
use std::sync::Arc;

use super::field::{MayBeMissing, TarField, TarValue, field_of};
use super::index::{TarIndex, TarPlace, TarSample};
use super::kept::kept_samples;
use super::members::shown;
use super::options::{OnMissing, TarOptions};
use super::places::TarPlaces;
use super::wanted::Wanted;
use crate::dataset::format::block::batch_key::BatchKey;
use crate::dataset::format::block::cache::BlockCache;
use crate::dataset::format::file::open_file::OpenFile;
use crate::dataset::format::file::pool::{FilePool, OPEN_FILES};
use crate::dataset::format::file::recent_files::RecentFiles;
use crate::dataset::format::file::source_files::SourceFiles;
use crate::dataset::format::index::place::IndexPlace;
use crate::dataset::format::index::sample_index::SampleIndex;
use crate::dataset::format::packing::unpacked::unpack;
use crate::dataset::format::packing::unpacked_room::Lease;
use crate::dataset::{Dataset, ReadMany, VariableSize};
use crate::{BatchWriter, Error, Result, SampleWriter, Schema, SizesWriter};

/// The samples in tar archives (`.tar`; `.tar.gz` and `.tar.zst` are unpacked first). The members of an archive whose
/// paths are equal up to the first dot of the last component form one sample; the extension after that dot identifies
/// the part. Headers are read once, and the positions of all members are kept in an index.
///
/// # Example
/// ```
/// use sluicegate::{Dataset, Tar, TarField, TarOptions, TarValue};
/// # let folder = tempfile::TempDir::new().unwrap();
/// # let path = folder.path().join("a.tar");
/// # let mut shard = sluicegate::internal::TarWriter::create(&path).unwrap();
/// # shard.append(b"dog.txt", b"woof").unwrap();
/// # shard.append(b"dog.cls", b"3").unwrap();
/// # shard.finish().unwrap();
/// let fields = vec![TarField::new("txt", TarValue::Bytes), TarField::new("cls", TarValue::Int)];
/// let animals = Tar::open(vec![path], fields, &TarOptions::default()).unwrap();
/// assert_eq!(animals.schema().to_string(), "(txt: uint8[*], cls: int64[])");
/// # assert_eq!(animals.len(), 1);
/// ```
pub struct Tar {
    pool: FilePool,
    /// The paths as given: the archives that are read may be unpacked copies.
    urls: Vec<PathBuf>,
    index: TarIndex,
    /// Keeps unpacked archives from being deleted.
    _lease: Option<Lease>,
    /// The samples of the index that are used; `None` for all.
    kept: Option<SampleIndex>,
    fields: Vec<Wanted>,
    schema: Schema,
    on_missing: OnMissing,
    /// Keyed by the indices of a batch; entries live only while the batch is read.
    batches: BlockCache<BatchKey, TarPlaces>,
}

impl Tar {
    /// Opens the archives at `paths`, whose samples have these `fields`.
    ///
    /// # Errors
    /// [`Error::Io`] if one can't be read; [`Error::Format`] if one is not an archive, is damaged, or has two members
    /// of the same name; [`Error::InvalidArgument`] if no sample has a requested field.
    pub fn open(paths: Vec<PathBuf>, fields: Vec<TarField>, options: &TarOptions) -> Result<Self> {
        let unpacked = unpack(&paths, &options.unpacked)?;
        let files = SourceFiles::look(unpacked.paths)?.with_sums(unpacked.sums);
        let pool = FilePool::new(Arc::new(files), OPEN_FILES);
        let place = IndexPlace::new(options.index_folder.clone())?;
        let index = TarIndex::open(&pool, options.end, options.damages, &place)?;
        let wanted = fields.into_iter().map(|field| {
            let number = |wanted: &Vec<u8>| index.extensions().iter().position(|extension| extension == wanted);
            let extensions: Vec<u32> = field.extensions.iter().filter_map(number).map(|number| number as u32).collect();
            if field.is_member() && extensions.is_empty() && options.on_missing == OnMissing::Refuse && index.len() > 0
            {
                return Err(unknown(&field, index.extensions(), &paths));
            }
            let is_optional = options.on_missing == OnMissing::Empty && field.is_member();
            let may_be_missing = if is_optional { MayBeMissing::Yes } else { MayBeMissing::No };
            Ok(Wanted { field, extensions, form: None, may_be_missing })
        });
        let mut tar = Self {
            fields: wanted.collect::<Result<_>>()?,
            schema: Schema::new([]),
            on_missing: options.on_missing,
            batches: BlockCache::new(0),
            kept: None,
            urls: paths,
            _lease: unpacked.lease,
            pool,
            index,
        };
        if options.on_missing == OnMissing::Skip || !options.excluded.is_empty() {
            let fields = tar.fields.iter().map(|wanted| match wanted.field.is_member() {
                true => (&wanted.field.extensions[..], Some(&wanted.extensions[..])),
                false => (&wanted.field.extensions[..], None),
            });
            tar.kept =
                Some(kept_samples(&tar.index, (&tar.pool, &tar.urls), &fields.collect::<Vec<_>>(), options, &place)?);
        }
        let mut fields = std::mem::take(&mut tar.fields);
        fields.iter_mut().filter(|wanted| wanted.field.is_array()).try_for_each(|wanted| tar.look_at_array(wanted))?;
        tar.fields = fields;
        let fields =
            tar.fields.iter().map(|wanted| field_of(&wanted.field, wanted.form.as_ref(), wanted.may_be_missing));
        tar.schema = Schema::new(fields.collect::<Result<Vec<_>>>()?);
        Ok(tar)
    }

    /// The extensions of all members, in lower case, in order of first appearance.
    #[must_use]
    pub fn extensions(&self) -> &[Vec<u8>] {
        self.index.extensions()
    }

    /// The extensions of the first sample; empty if there are no samples.
    ///
    /// # Errors
    /// The index can't be read.
    pub fn first_extensions(&self) -> Result<Vec<Vec<u8>>> {
        match self.len() {
            0 => Ok(Vec::new()),
            _ => {
                let mut sample = TarSample::default();
                self.index.read_sample(self.sample(0)?, &mut sample)?;
                sample.extensions().map(|extension| self.index.extension(extension).map(<[u8]>::to_vec)).collect()
            }
        }
    }

    /// The number of samples in each archive, including those without all fields.
    #[must_use]
    pub fn samples_by_archive(&self) -> Vec<usize> {
        self.index.samples_by_file()
    }

    /// The number of samples used from each archive, as block sizes.
    ///
    /// # Errors
    /// The index can't be read.
    pub fn block_sizes(&self) -> Result<Vec<usize>> {
        self.kept.as_ref().map_or_else(|| Ok(self.samples_by_archive()), |kept| self.index.kept_by_file(kept))
    }

    /// What was left out of damaged archives, one line per error.
    ///
    /// # Errors
    /// The index can't be read.
    pub fn damages(&self) -> Result<Vec<String>> {
        self.index.damages()
    }

    /// Takes the shape and data type of a field's arrays from its first one, if there is any.
    fn look_at_array(&self, wanted: &mut Wanted) -> Result<()> {
        if wanted.extensions.is_empty() {
            return Ok(());
        }
        let mut found = TarSample::default();
        for index in 0..self.len() {
            let sample = self.sample(index)?;
            self.index.read_sample(sample, &mut found)?;
            if let Some(place) = found.member(&wanted.extensions) {
                let file = self.pool.file(self.index.file(sample)?)?;
                let name = wanted.field.name.clone();
                return wanted.take_form((&file, place), &|reason| self.broken(index, &name, (&file, place), &reason));
            }
        }
        Ok(())
    }

    /// Returns the number in the index of sample `index`.
    fn sample(&self, index: usize) -> Result<usize> {
        match &self.kept {
            Some(kept) => kept.get(0, index).map(|sample| usize::try_from(sample).unwrap_or(usize::MAX)),
            None if index < self.index.len() => Ok(index),
            None => Err(Error::IndexOutOfRange { index, len: self.index.len() }),
        }
    }

    /// Looks up the samples at `indices`.
    fn locate(&self, indices: &[usize]) -> Result<TarPlaces> {
        let mut places = TarPlaces::new(self.fields.len(), indices.len());
        let mut found = TarSample::default();
        for &index in indices {
            let sample = self.sample(index)?;
            self.index.read_sample(sample, &mut found)?;
            places.push(sample, self.index.file(sample)?);
            for wanted in &self.fields {
                let place = found.member(&wanted.extensions);
                if place.is_none() && wanted.field.is_member() && self.on_missing != OnMissing::Empty {
                    return Err(self.missing(index, sample, wanted));
                }
                places.push_member(place);
            }
        }
        Ok(places)
    }

    /// Returns the positions of the samples of a batch; cached if their sizes were requested before.
    fn places(&self, indices: &[usize]) -> Result<Arc<TarPlaces>> {
        if !self.schema.is_variable() {
            return self.locate(indices).map(Arc::new);
        }
        self.batches.get(&BatchKey::of(indices), || Ok((self.locate(indices)?, 1)))
    }

    fn missing(&self, index: usize, sample: usize, wanted: &Wanted) -> Error {
        let place = self.index.file(sample).and_then(|file| Ok((file, self.index.key(sample)?)));
        let (file, key) = match place {
            Ok(place) => place,
            Err(error) => return error,
        };
        let reason = format!(
            "sample {} of {} has no such member; pass on_missing, or omit the field",
            shown(&key),
            self.urls[file].display()
        );
        Error::Sample { index, field: wanted.field.name.clone(), reason }
    }

    /// Reads the sample in row `row` of `places` into buffers of the size that `sizes` reported.
    fn fill(
        &self,
        (index, row): (usize, usize),
        places: &TarPlaces,
        file: &OpenFile,
        into: &mut SampleWriter<'_>,
    ) -> Result<()> {
        for (number, (wanted, place)) in self.fields.iter().zip(places.members(row)).enumerate() {
            let room = into.field(number);
            match (wanted.field.value, place) {
                (TarValue::Key, _) => self.index.read_key(places.sample(row), room)?,
                (TarValue::Url, _) => room.copy_from_slice(self.url(places.file(row))),
                (_, None) => {}
                (_, Some(place)) => {
                    let member = (file, *place);
                    wanted.fill(member, room, &|reason| self.broken(index, &wanted.field.name, member, &reason))?;
                }
            }
        }
        Ok(())
    }

    fn url(&self, file: usize) -> &[u8] {
        self.urls[file].as_os_str().as_encoded_bytes()
    }

    /// Returns an error about the contents of a member.
    fn broken(&self, index: usize, field: &str, (file, place): (&OpenFile, TarPlace), reason: &str) -> Error {
        let key = self.sample(index).and_then(|sample| self.index.key(sample)).unwrap_or_default();
        let reason = format!("field `{field}` of sample {index} ({}): {reason}", shown(&key));
        Error::Format { path: file.source().path.clone(), offset: place.data, reason }
    }
}

fn unknown(field: &TarField, extensions: &[Vec<u8>], archives: &[PathBuf]) -> Error {
    let known: Vec<_> = extensions.iter().take(20).map(|extension| String::from_utf8_lossy(extension)).collect();
    let of = match archives {
        [first, _, ..] => format!(", in {} and {} more", first.display(), archives.len() - 1),
        one => one.iter().map(|archive| format!(", in {}", archive.display())).collect(),
    };
    Error::invalid("fields", format!("no sample has `{}`; there are {}{of}", field.name, known.join(", ")))
}

impl Dataset for Tar {
    fn len(&self) -> usize {
        self.kept.as_ref().map_or(self.index.len(), |kept| kept.len(0))
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        let mut read = || {
            let places = self.places(&[index])?;
            let mut files = RecentFiles::of(&self.pool);
            let read = files.file(places.file(0)).and_then(|file| self.fill((index, 0), &places, file, into));
            files.checked(read)
        };
        self.index.checked(read())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        self.schema.is_variable().then_some(self)
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        let (sample, mut found) = (self.sample(index).ok()?, TarSample::default());
        self.index.read_sample(sample, &mut found).ok()?;
        let (archive, key) = (self.urls[self.index.file(sample).ok()?].display(), self.index.key(sample).ok()?);
        let mut extensions = self.fields.get(field)?.extensions.iter();
        let extension = extensions.find(|&&extension| found.member(&[extension]).is_some());
        let extension = extension.and_then(|&extension| self.index.extension(extension).ok()).unwrap_or_default();
        Some(format!("{archive}, member {}", shown(&[&key[..], b".", extension].concat())))
    }
}

impl ReadMany for Tar {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let mut read = || {
            let places = self.places(indices)?;
            // Errors are dropped: they recur when the samples are read.
            let announce = || drop(places.announce(&self.pool));
            let mut batch = self.pool.page_cache().batch(announce);
            let mut files = RecentFiles::of(&self.pool);
            let read = indices.iter().enumerate().try_for_each(|(row, &index)| {
                self.fill((index, row), &places, files.file(places.file(row))?, &mut into.sample(row))?;
                batch.was_read();
                Ok(())
            });
            files.checked(read)
        };
        self.index.checked(read())
    }
}

impl VariableSize for Tar {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        self.index.checked(self.all_sizes(indices, into))
    }
}

impl Tar {
    fn all_sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        let places = self.places(indices)?;
        for row in 0..indices.len() {
            for (number, (wanted, place)) in self.fields.iter().zip(places.members(row)).enumerate() {
                let elements = match (wanted.field.value, place) {
                    (TarValue::Key, _) => self.index.key_bytes(places.sample(row))?,
                    (TarValue::Url, _) => self.url(places.file(row)).len(),
                    (TarValue::RaggedNpy, Some(_)) => continue,
                    (TarValue::Bytes, Some(place)) => wanted.bytes(*place),
                    (TarValue::Bytes | TarValue::RaggedNpy, None) => 0,
                    _ if wanted.may_be_missing == MayBeMissing::Yes => usize::from(place.is_some()),
                    _ => continue,
                };
                into.set(row, number, elements);
            }
        }
        if self.fields.iter().any(|wanted| wanted.field.value == TarValue::RaggedNpy) {
            self.lengths(indices, &places, into)?;
        }
        into.keep(places);
        Ok(())
    }

    /// Reports the lengths of ragged arrays, which are read from their headers.
    fn lengths(&self, indices: &[usize], places: &TarPlaces, into: &mut SizesWriter<'_>) -> Result<()> {
        // Errors are dropped: they recur when the samples are read.
        let mut batch = self.pool.page_cache().batch(|| drop(places.announce(&self.pool)));
        let mut files = RecentFiles::of(&self.pool);
        let mut of_row = |row: usize, index: usize| {
            let file = files.file(places.file(row))?;
            for (number, (wanted, place)) in self.fields.iter().zip(places.members(row)).enumerate() {
                if let (TarValue::RaggedNpy, Some(place)) = (wanted.field.value, place) {
                    let member = (file, *place);
                    let refuse = |reason: String| self.broken(index, &wanted.field.name, member, &reason);
                    into.set(row, number, wanted.length(member, &refuse)?);
                }
            }
            batch.was_read();
            Ok(())
        };
        let read = indices.iter().enumerate().try_for_each(|(row, &index)| of_row(row, index));
        files.checked(read)
    }
}
