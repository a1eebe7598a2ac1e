//! `Dataset`: what can be read without Python.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use super::arrow_table::{self, ColumnForm};
use super::block_cache::BlockCache;
use super::columnar::{ColumnarArguments, kind_name, structure};
use super::convert::plain_indices;
use super::detach::detach;
use super::error::to_python;
use super::memory::{ForeignArray, Indices};
use super::parquet::ParquetArguments;
use super::tar::TarArguments;
use super::tokens::{TokenFiles, token_output};
use super::typed_field::{TypedForm, content_of, typed_fields};
use crate::{
    Arrow, Concat, CsvHeader, Field, FolderClasses, FolderLinks, FolderOptions, InMemory, Npy, Ragged, RawField, Stack,
    Subset, TokenWindows, Tokens,
};

/// A dataset of the core. Threads may share it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct Dataset(pub(super) Arc<dyn crate::Dataset>);

impl Dataset {
    fn wrap(py: Python<'_>, dataset: crate::Result<impl crate::Dataset + 'static>) -> PyResult<Self> {
        dataset.map(|dataset| Self(Arc::new(dataset))).map_err(|error| to_python(py, error))
    }
}

#[pymethods]
impl Dataset {
    /// Arrays in memory, a field each: (name, dtype, address, shape, strides in bytes, owner).
    #[staticmethod]
    fn in_memory(py: Python<'_>, arrays: Vec<ForeignArray>) -> PyResult<Self> {
        let arrays = arrays.into_iter().map(ForeignArray::into_field).collect::<crate::Result<Vec<_>>>();
        Self::wrap(py, arrays.and_then(InMemory::new))
    }

    /// The `.npy` file at `path`, memory-mapped.
    #[staticmethod]
    fn npy(py: Python<'_>, name: String, path: PathBuf) -> PyResult<Self> {
        let npy = detach(py, || Npy::open(name, path))?;
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
        let parts = detach(py, || {
            let fields = fields.collect::<crate::Result<Vec<_>>>()?;
            let part = |path| crate::Raw::open(path, header_bytes, sample_bytes, fields.clone());
            paths.iter().map(|path| Ok(Arc::new(part(path)?) as Arc<dyn crate::Dataset>)).collect::<crate::Result<_>>()
        })?;
        Self::wrap(py, Concat::new(parts))
    }

    /// The files below the folder `root` that have one of the `extensions` (or any) and are meant by `pattern` (or are
    /// anywhere), and the names of the classes.
    #[staticmethod]
    fn folder(
        py: Python<'_>,
        root: PathBuf,
        pattern: Option<String>,
        extensions: Vec<String>,
        has_classes: bool,
        follow_links: bool,
    ) -> PyResult<(Self, Vec<OsString>)> {
        let classes = if has_classes { FolderClasses::FirstFolder } else { FolderClasses::None };
        let links = if follow_links { FolderLinks::Anywhere } else { FolderLinks::Inside };
        let folder = detach(py, || crate::Folder::open(root, &FolderOptions { classes, links, extensions, pattern }))?;
        let names = folder.class_names().iter().map(|name| OsString::from_vec(name.clone())).collect();
        Ok((Self(Arc::new(folder)), names))
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
        let tokens = detach(py, || Tokens::new(Arc::clone(&files.0), windows))?;
        Self::wrap(py, Ok(tokens))
    }

    /// The documents of `files`, each whole.
    #[staticmethod]
    fn token_documents(files: &TokenFiles) -> Self {
        Self(Arc::new(crate::TokenDocuments::new(Arc::clone(&files.0))))
    }

    /// The tensors called `fields` (all by name, where there are none) of the safetensors files at `paths`.
    #[staticmethod]
    fn safetensors(py: Python<'_>, paths: Vec<PathBuf>, fields: Option<Vec<String>>) -> PyResult<Self> {
        let rows = detach(py, || crate::Safetensors::open_all(&paths, fields.as_deref()))?;
        Self::wrap(py, Ok(rows))
    }

    /// The lines of the files at `paths`, whole, or their fields.
    #[staticmethod]
    fn json_lines(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedForm>>,
        index_folder: Option<PathBuf>,
    ) -> PyResult<Self> {
        let lines = detach(py, || crate::JsonLines::open(paths, fields.map(typed_fields).transpose()?, index_folder))?;
        Self::wrap(py, Ok(lines))
    }

    /// The samples of the TFRecord files at `paths`: their bytes, their features, or those that the first ones have; and what
    /// each feature holds.
    #[staticmethod]
    fn tfrecord(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        is_raw: bool,
        features: Option<Vec<TypedForm>>,
        index_folder: Option<PathBuf>,
    ) -> PyResult<(Self, Vec<&'static str>)> {
        let samples = detach(py, || {
            let features = match features {
                _ if is_raw => crate::Features::Raw,
                Some(forms) => crate::Features::Typed(typed_fields(forms)?),
                None => crate::Features::Inferred,
            };
            crate::TfRecord::open(paths, features, index_folder)
        })?;
        let contents = samples.fields().iter().map(content_of).collect();
        Ok((Self(Arc::new(samples)), contents))
    }

    /// The rows of the CSV files at `paths`: the columns that `fields` describe, or all, with `defaults` (name, text) for empty
    /// cells; and what each column holds.
    #[staticmethod]
    fn csv(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        fields: Option<Vec<TypedForm>>,
        defaults: Vec<(String, String)>,
        has_header: bool,
        delimiter: u8,
        index_folder: Option<PathBuf>,
    ) -> PyResult<(Self, Vec<&'static str>)> {
        let header = if has_header { CsvHeader::FirstRow } else { CsvHeader::None };
        let rows = detach(py, || {
            let fields = fields.map(typed_fields).transpose()?;
            crate::Csv::open(paths, fields, &defaults, header, delimiter, index_folder)
        })?;
        let contents = rows.fields().iter().map(content_of).collect();
        Ok((Self(Arc::new(rows)), contents))
    }

    /// The columns called `fields`, or all, of the folder `folder` in MDS, of whose unpacked shards `cache_bytes` bytes are
    /// kept; what each column holds, the number of samples in each shard, and the cache.
    #[staticmethod]
    fn mds(
        py: Python<'_>,
        folder: PathBuf,
        fields: Option<Vec<String>>,
        cache_bytes: usize,
    ) -> PyResult<(Self, Vec<&'static str>, Vec<usize>, BlockCache)> {
        let samples = detach(py, || Ok(crate::Mds::open(folder, fields.as_deref())?.with_cache_bytes(cache_bytes)))?;
        let (contents, sizes) = (samples.fields().iter().map(content_of).collect(), samples.block_sizes());
        let samples = Arc::new(samples);
        let cache = BlockCache::of(&samples, crate::Mds::cache_info);
        Ok((Self(samples), contents, sizes, cache))
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
    ) -> PyResult<(Self, Bound<'py, PyAny>, Vec<String>, Vec<usize>, BlockCache)> {
        let rows = detach(py, || Arrow::open(paths, &columns.options()?, cache_bytes))?;
        let kinds = rows.kinds().iter().map(kind_name).collect();
        let (structure, sizes) = (structure(py, rows.nesting())?, rows.block_sizes().collect());
        let rows = Arc::new(rows);
        let cache = BlockCache::of(&rows, Arrow::cache_info);
        Ok((Self(rows), structure, kinds, sizes, cache))
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
        let (tar, names, damages, samples) = detach(py, || arguments.open(paths))?;
        let sizes = detach(py, || tar.block_sizes())?;
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
    ) -> PyResult<(Self, Bound<'py, PyAny>, Vec<String>, Vec<usize>, BlockCache)> {
        let rows = detach(py, || arguments.open(paths))?;
        let kinds = rows.kinds().iter().map(kind_name).collect();
        let (structure, sizes) = (structure(py, rows.nesting())?, rows.group_samples());
        let rows = Arc::new(rows);
        let cache = BlockCache::of(&rows, crate::Parquet::cache_info);
        Ok((Self(rows), structure, kinds, sizes, cache))
    }

    /// The samples of `dataset` at `indices`; nothing when one of them is no plain `int` in range.
    #[staticmethod]
    fn subset(py: Python<'_>, dataset: &Self, indices: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let len = dataset.0.len();
        let indices = match indices.cast::<PyList>() {
            Ok(list) => plain_indices(list, len),
            Err(_) => indices.cast::<Indices>()?.get().places(0, usize::MAX, len),
        };
        let Some(indices) = indices else { return Ok(None) };
        Self::wrap(py, Subset::new(Arc::clone(&dataset.0), indices)).map(Some)
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

    /// Whether batches of both can be concatenated: equal data types and shapes, field by field.
    fn stacks_with(&self, other: &Self) -> bool {
        self.0.schema().stacks_with(other.0.schema())
    }
}
