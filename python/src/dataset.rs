//! `Dataset`: what can be read without Python.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use sluicegate::internal::WholeSamples;
use sluicegate::{
    Arrow, Concat, CsvHeader, Field, FolderClasses, FolderLinks, FolderOptions, Npy, Parquet, Ragged, RawField, Stack,
    Subset, TokenWindows, Tokens,
};

use super::arrow_table::{self, ColumnForm};
use super::block_cache::BlockCache;
use super::columnar::{ColumnarArguments, kind_name, structure};
use super::convert::{all_places, plain_places};
use super::detach::opening;
use super::error::to_python;
use super::in_memory::in_memory;
use super::memory::{ForeignArray, Indices};
use super::parquet::ParquetArguments;
use super::tar::TarArguments;
use super::tokens::{TokenFiles, token_output};
use super::typed_field::{TypedForm, content_of, typed_fields};

/// A dataset of the core. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Dataset(pub(super) Arc<dyn sluicegate::Dataset>);

impl Dataset {
    fn wrap(py: Python<'_>, dataset: sluicegate::Result<impl sluicegate::Dataset + 'static>) -> PyResult<Self> {
        dataset.map(|dataset| Self(Arc::new(dataset))).map_err(|error| to_python(py, error))
    }

    /// The dataset of samples that are whole, and what was left out.
    fn whole<D: sluicegate::Dataset + 'static>(samples: WholeSamples<D>) -> (Self, Vec<String>) {
        let damages = samples.damages().to_vec();
        (Self(Arc::new(samples)), damages)
    }
}

impl Dataset {
    /// As `whole`, of samples that are decoded by blocks.
    fn whole_blocks<D: sluicegate::Dataset + 'static>(
        samples: WholeSamples<D>,
        info: fn(&D) -> sluicegate::internal::CacheInfo,
    ) -> (Self, BlockCache, Vec<String>) {
        let (damages, samples) = (samples.damages().to_vec(), Arc::new(samples));
        let cache = BlockCache::of(&samples, move |samples| info(samples.dataset()));
        (Self(samples), cache, damages)
    }
}

/// The blocks of these sizes without the samples that are left out.
pub(super) fn whole_sizes<D: sluicegate::Dataset>(
    rows: &WholeSamples<D>,
    all: impl IntoIterator<Item = usize>,
) -> Vec<usize> {
    let mut start = 0;
    let sizes = all.into_iter().map(|size| {
        start += size;
        rows.whole_in(start - size..start)
    });
    sizes.collect()
}

#[pymethods]
impl Dataset {
    /// Arrays in memory, a field each: (name, dtype, address, shape, strides in bytes, owner).
    #[staticmethod]
    fn in_memory(py: Python<'_>, arrays: Vec<ForeignArray>) -> PyResult<Self> {
        Self::wrap(py, in_memory(arrays))
    }

    /// The `.npy` files at `paths`, memory-mapped, one after the other.
    #[staticmethod]
    fn npy(py: Python<'_>, name: String, paths: Vec<PathBuf>) -> PyResult<Self> {
        if let [path] = &paths[..] {
            return Self::wrap(py, Ok(opening(py, || Npy::open(name, path))?));
        }
        let npy = opening(py, || Npy::open_all(name, &paths))?;
        Self::wrap(py, Ok(npy))
    }

    /// Samples of any size in memory: the elements of an array, and where each sample begins and the last one ends.
    #[staticmethod]
    fn ragged(py: Python<'_>, values: ForeignArray, offsets: Vec<usize>) -> PyResult<Self> {
        Self::wrap(
            py,
            values.into_field().and_then(|(field, values)| {
                let field = Field::variable(field.name(), field.dtype(), field.shape());
                Ragged::new(field, values, offsets)
            }),
        )
    }

    /// The samples of `sample_bytes` bytes in the files at `paths`: (name, dtype, shape, offset, is swapped) by field.
    #[staticmethod]
    fn raw(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        header_bytes: usize,
        sample_bytes: usize,
        fields: Vec<(String, String, Vec<usize>, usize, bool)>,
    ) -> PyResult<Self> {
        let fields = fields.into_iter().map(|(name, dtype, shape, offset, is_swapped)| {
            let field = RawField::new(Field::new(name, dtype.parse()?, shape), offset);
            Ok(if is_swapped { field.swapped() } else { field })
        });
        let samples = opening(py, || {
            sluicegate::Raw::open_all(
                &paths,
                header_bytes,
                sample_bytes,
                fields.collect::<sluicegate::Result<Vec<_>>>()?,
            )
        })?;
        Self::wrap(py, Ok(samples))
    }

    /// The files below the `folders` of `root` that have one of the `extensions` (or any) and are meant by `pattern` (or are
    /// anywhere), without those that can't be opened where `leave_out` says so; the names of the classes, and what was left out.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "as many as Python's constructor has")]
    fn folder(
        py: Python<'_>,
        root: PathBuf,
        folders: Vec<PathBuf>,
        pattern: Option<String>,
        extensions: Vec<String>,
        has_classes: bool,
        follow_links: bool,
        leave_out: bool,
    ) -> PyResult<(Self, Vec<OsString>, Vec<String>)> {
        let classes = if has_classes { FolderClasses::FirstFolder } else { FolderClasses::None };
        let links = if follow_links { FolderLinks::Anywhere } else { FolderLinks::Inside };
        let options = FolderOptions { classes, links, extensions, pattern };
        let names = |folder: &sluicegate::Folder| {
            folder.class_names().iter().map(|name| OsString::from_vec(name.clone())).collect::<Vec<_>>()
        };
        if leave_out {
            let folder = opening(py, || sluicegate::Folder::open_whole(root, &folders, &options))?;
            let names = names(folder.dataset());
            let (folder, damages) = Self::whole(folder);
            return Ok((folder, names, damages));
        }
        let folder = opening(py, || sluicegate::Folder::open_all(root, &folders, &options))?;
        let names = names(&folder);
        Ok((Self(Arc::new(folder)), names, Vec::new()))
    }

    /// Windows of `length` tokens, `stride` apart. `output` is "tokens", "shifted" or "same".
    #[staticmethod]
    #[pyo3(signature = (files, length, stride, output, vocabulary_size))]
    fn tokens(
        py: Python<'_>,
        files: &TokenFiles,
        length: usize,
        stride: usize,
        output: &str,
        vocabulary_size: Option<u64>,
    ) -> PyResult<Self> {
        let windows = TokenWindows { length, stride, output: token_output(output)?, vocabulary_size };
        let tokens = opening(py, || Tokens::new(Arc::clone(&files.0), windows))?;
        Self::wrap(py, Ok(tokens))
    }

    /// The documents of `files`, each whole.
    #[staticmethod]
    fn token_documents(files: &TokenFiles) -> Self {
        Self(Arc::new(sluicegate::TokenDocuments::new(Arc::clone(&files.0))))
    }

    /// The tensors called `fields` (all by name, where there are none) of the safetensors files at `paths`.
    #[staticmethod]
    fn safetensors(py: Python<'_>, paths: Vec<PathBuf>, fields: Option<Vec<String>>) -> PyResult<Self> {
        let rows = opening(py, || sluicegate::Safetensors::open_all(&paths, fields.as_deref()))?;
        Self::wrap(py, Ok(rows))
    }

    /// The lines of the files at `paths`, whole, or their fields, without broken ones where `leave_out` says so; and what was
    /// left out.
    #[staticmethod]
    fn json_lines(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedForm>>,
        index_folder: Option<PathBuf>,
        leave_out: bool,
    ) -> PyResult<(Self, Vec<String>)> {
        if leave_out {
            let open = || sluicegate::JsonLines::open_whole(paths, fields.map(typed_fields).transpose()?, index_folder);
            return Ok(Self::whole(opening(py, open)?));
        }
        let lines =
            opening(py, || sluicegate::JsonLines::open(paths, fields.map(typed_fields).transpose()?, index_folder))?;
        Ok((Self(Arc::new(lines)), Vec::new()))
    }

    /// The samples of the TFRecord files at `paths`: their bytes, their features, or those that the first ones have; and what
    /// each feature holds; without broken ones where `leave_out` says so, and what was left out.
    #[staticmethod]
    fn tfrecord(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        is_raw: bool,
        features: Option<Vec<TypedForm>>,
        index_folder: Option<PathBuf>,
        leave_out: bool,
    ) -> PyResult<(Self, Vec<&'static str>, Vec<String>)> {
        let features = || -> sluicegate::Result<_> {
            Ok(match features {
                _ if is_raw => sluicegate::Features::Raw,
                Some(forms) => sluicegate::Features::Typed(typed_fields(forms)?),
                None => sluicegate::Features::Inferred,
            })
        };
        let contents = |samples: &sluicegate::TfRecord| samples.fields().iter().map(content_of).collect();
        if leave_out {
            let samples = opening(py, || sluicegate::TfRecord::open_whole(paths, features()?, index_folder))?;
            let contents = contents(samples.dataset());
            let (samples, damages) = Self::whole(samples);
            return Ok((samples, contents, damages));
        }
        let samples = opening(py, || sluicegate::TfRecord::open(paths, features()?, index_folder))?;
        let contents = contents(&samples);
        Ok((Self(Arc::new(samples)), contents, Vec::new()))
    }

    /// The rows of the CSV files at `paths`: the columns that `fields` describe, or all, with `defaults` (name, text) for empty
    /// cells; and what each column holds; without broken ones where `leave_out` says so, and what was left out.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "as many as Python's constructor has")]
    fn csv(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedForm>>,
        defaults: Vec<(String, String)>,
        has_header: bool,
        delimiter: u8,
        index_folder: Option<PathBuf>,
        leave_out: bool,
    ) -> PyResult<(Self, Vec<&'static str>, Vec<String>)> {
        let header = if has_header { CsvHeader::FirstRow } else { CsvHeader::None };
        let contents = |rows: &sluicegate::Csv| rows.fields().iter().map(content_of).collect();
        let fields = || fields.map(typed_fields).transpose();
        if leave_out {
            let rows = opening(py, || {
                sluicegate::Csv::open_whole(paths, fields()?, &defaults, header, delimiter, index_folder)
            })?;
            let contents = contents(rows.dataset());
            let (rows, damages) = Self::whole(rows);
            return Ok((rows, contents, damages));
        }
        let rows = opening(py, || sluicegate::Csv::open(paths, fields()?, &defaults, header, delimiter, index_folder))?;
        let contents = contents(&rows);
        Ok((Self(Arc::new(rows)), contents, Vec::new()))
    }

    /// The columns called `fields`, or all, of the folder `folder` in MDS, of whose unpacked shards `cache_bytes` bytes are
    /// kept; what each column holds, the number of samples in each shard, and the cache; without broken samples where
    /// `leave_out` says so, which ones is kept in `index_folder`, and what was left out.
    #[staticmethod]
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn mds(
        py: Python<'_>,
        folder: PathBuf,
        fields: Option<Vec<String>>,
        cache_bytes: usize,
        index_folder: Option<PathBuf>,
        leave_out: bool,
    ) -> PyResult<(Self, Vec<&'static str>, Vec<usize>, BlockCache, Vec<String>)> {
        let contents = |samples: &sluicegate::Mds| samples.fields().iter().map(content_of).collect();
        if leave_out {
            let samples = opening(py, || {
                let samples = sluicegate::Mds::open_whole(folder, fields.as_deref(), index_folder)?;
                Ok(samples.map(|samples| samples.with_cache_bytes(cache_bytes)))
            })?;
            let all = samples.dataset();
            let (contents, sizes) = (contents(all), whole_sizes(&samples, all.block_sizes()));
            let (samples, cache, damages) = Self::whole_blocks(samples, sluicegate::Mds::cache_info);
            return Ok((samples, contents, sizes, cache, damages));
        }
        let samples =
            opening(py, || Ok(sluicegate::Mds::open(folder, fields.as_deref())?.with_cache_bytes(cache_bytes)))?;
        let (contents, sizes, samples) = (contents(&samples), samples.block_sizes(), Arc::new(samples));
        let cache = BlockCache::of(&samples, sluicegate::Mds::cache_info);
        Ok((Self(samples), contents, sizes, cache, Vec::new()))
    }

    /// The rows of the Arrow files at `paths`, of whose unpacked batches `cache_bytes` bytes are kept; how their fields are
    /// nested, what each of them is, the number of rows in each batch, and the cache.
    #[staticmethod]
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn arrow<'py>(
        py: Python<'py>,
        paths: Vec<PathBuf>,
        columns: ColumnarArguments,
        cache_bytes: usize,
        index_folder: Option<PathBuf>,
        leave_out: bool,
    ) -> PyResult<(Self, Bound<'py, PyAny>, Vec<String>, Vec<usize>, BlockCache, Vec<String>)> {
        let kinds = |rows: &Arrow| rows.kinds().iter().map(kind_name).collect();
        if leave_out {
            let rows = opening(py, || Arrow::open_whole(paths, &columns.options()?, cache_bytes, index_folder))?;
            let (kinds, structure) = (kinds(rows.dataset()), structure(py, rows.dataset().nesting())?);
            let sizes = whole_sizes(&rows, rows.dataset().block_sizes());
            let (rows, cache, damages) = Self::whole_blocks(rows, Arrow::cache_info);
            return Ok((rows, structure, kinds, sizes, cache, damages));
        }
        let rows = opening(py, || Arrow::open(paths, &columns.options()?, cache_bytes))?;
        let (structure, kinds, sizes) = (structure(py, rows.nesting())?, kinds(&rows), rows.block_sizes().collect());
        let rows = Arc::new(rows);
        let cache = BlockCache::of(&rows, Arrow::cache_info);
        Ok((Self(rows), structure, kinds, sizes, cache, Vec::new()))
    }

    /// The `columns` of the table that the capsule `stream` holds, in the data types that torch works with; nothing when it
    /// has nulls, lists of unequal lengths, or columns of other types.
    #[staticmethod]
    fn arrow_table(py: Python<'_>, stream: &Bound<'_, PyCapsule>, columns: Vec<ColumnForm>) -> PyResult<Option<Self>> {
        Ok(arrow_table::read(py, stream, columns)?.map(|table| Self(Arc::new(table))))
    }

    /// The samples in the archives at `paths`, the names of their fields, what was left out of damaged archives, how many
    /// samples each archive has, and how many of them are counted.
    #[staticmethod]
    #[expect(clippy::type_complexity, reason = "a tuple is what Python gets")]
    fn tar(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        arguments: TarArguments,
    ) -> PyResult<(Self, Vec<String>, Vec<String>, Vec<usize>, Vec<usize>)> {
        let (tar, names, damages, samples) = opening(py, || arguments.open(paths))?;
        let sizes = opening(py, || tar.block_sizes())?;
        Ok((Self(Arc::new(tar)), names, damages, samples, sizes))
    }

    /// The rows of the Parquet files at `paths`; how their fields are nested, what each of them is, the number of rows in each
    /// row group, and the cache.
    #[staticmethod]
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn parquet<'py>(
        py: Python<'py>,
        paths: Vec<PathBuf>,
        arguments: ParquetArguments,
        leave_out: bool,
    ) -> PyResult<(Self, Bound<'py, PyAny>, Vec<String>, Vec<usize>, BlockCache, Vec<String>)> {
        let kinds = |rows: &Parquet| rows.kinds().iter().map(kind_name).collect();
        if leave_out {
            let rows = opening(py, || Parquet::open_whole(paths, arguments.options()?))?;
            let (kinds, structure) = (kinds(rows.dataset()), structure(py, rows.dataset().nesting())?);
            let sizes = whole_sizes(&rows, rows.dataset().group_samples());
            let (rows, cache, damages) = Self::whole_blocks(rows, Parquet::cache_info);
            return Ok((rows, structure, kinds, sizes, cache, damages));
        }
        let rows = opening(py, || Parquet::open(paths, arguments.options()?))?;
        let (structure, kinds, sizes) = (structure(py, rows.nesting())?, kinds(&rows), rows.group_samples());
        let rows = Arc::new(rows);
        let cache = BlockCache::of(&rows, Parquet::cache_info);
        Ok((Self(rows), structure, kinds, sizes, cache, Vec::new()))
    }

    /// The samples of `dataset` at `indices`; nothing when one of them is not a plain `int` in range.
    #[staticmethod]
    fn subset(py: Python<'_>, dataset: &Self, indices: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let len = dataset.0.len();
        let indices = match indices.cast::<PyList>() {
            Ok(list) => plain_places(list, len)?,
            Err(_) => all_places(py, indices.cast::<Indices>()?.get(), len)?,
        };
        Ok(indices.map(|indices| Self(Arc::new(Subset::checked(Arc::clone(&dataset.0), indices)))))
    }

    /// One dataset after the other.
    #[staticmethod]
    fn concat(py: Python<'_>, parts: Vec<PyRef<'_, Self>>) -> PyResult<Self> {
        Self::wrap(py, Concat::new(parts.iter().map(|part| Arc::clone(&part.0)).collect()))
    }

    /// Datasets side by side.
    #[staticmethod]
    fn stack(py: Python<'_>, parts: Vec<(String, PyRef<'_, Self>)>) -> PyResult<Self> {
        Self::wrap(py, Stack::new(parts.into_iter().map(|(name, part)| (name, Arc::clone(&part.0))).collect()))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The fields of a sample: (name, dtype, shape).
    #[getter]
    fn fields(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        let fields = self.0.schema().fields().iter();
        fields.map(|field| (field.name().to_owned(), field.dtype().name(), field.shape().to_vec())).collect()
    }

    /// True if a sample depends on its key.
    #[getter]
    fn is_random(&self) -> bool {
        self.0.is_random()
    }

    /// True if batches of both can be concatenated: equal data types and shapes, field by field.
    fn stacks_with(&self, other: &Self) -> bool {
        self.0.schema().stacks_with(other.0.schema())
    }
}
