//! Zarr stores: the arguments for reading them, and the blocks of their windows.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::Value;
use sluicegate::internal::{
    ForeignArray, ForeignChunks, Member, ReadChunks, Reference, ReferenceLayout, ReferenceSource, ReferenceTable,
    numpy_type,
};
use sluicegate::{DType, Error, Result, WholeSamples, WindowEdges, WindowOrder, Zarr, ZarrOptions};

use crate::block_cache::BlockCache;
use crate::dataset::{Dataset, whole_sizes};
use crate::detach::opening;
use crate::error::unknown;
use crate::python_chunks::PythonChunks;

/// The dataset of windows; true if the store is one array; the cache of its chunks, the blocks of the windows, and what
/// was left out.
type Opened = (Dataset, bool, BlockCache, WindowBlocks, Vec<String>);

/// Opens the windows of the Zarr or netCDF-3 store at `path`.
#[pyfunction]
pub(crate) fn zarr_windows(py: Python<'_>, path: PathBuf, arguments: ZarrArguments) -> PyResult<Opened> {
    opening(py, || {
        let leave_out = arguments.leave_out;
        opened(Zarr::open(path, &arguments.options()?)?, leave_out)
    })
}

/// The name of an array, the paths of files, chunks in the table itself, and the locations of the chunks.
type NamedTable = (String, Vec<String>, Vec<Vec<u8>>, Vec<u8>);

/// Opens the windows of a store at `path` with kerchunk's JSON metadata, and chunk references in tables.
#[pyfunction]
pub(crate) fn reference_windows(
    py: Python<'_>,
    path: PathBuf,
    metadata: Vec<u8>,
    tables: Vec<NamedTable>,
    arguments: ZarrArguments,
) -> PyResult<Opened> {
    opening(py, || {
        let tables = tables.into_iter().map(|(name, paths, inline, chunks)| {
            let numbers: Vec<u64> =
                chunks.as_chunks::<8>().0.iter().map(|&number| u64::from_ne_bytes(number)).collect();
            (name, ReferenceTable { paths, inline, chunks: numbers.as_chunks::<4>().0.to_vec() })
        });
        let leave_out = arguments.leave_out;
        opened(Zarr::of_references(&path, &metadata, tables.collect(), &arguments.options()?)?, leave_out)
    })
}

/// Opens the windows of HDF5 `arrays`.
#[pyfunction]
pub(crate) fn hdf5_windows(py: Python<'_>, arrays: Vec<ArrayArguments>, arguments: ZarrArguments) -> PyResult<Opened> {
    opening(py, || {
        let leave_out = arguments.leave_out;
        let arrays = arrays.into_iter().map(ArrayArguments::array).collect::<Result<Vec<_>>>()?;
        opened(Zarr::of_other_format(arrays, &arguments.options()?)?, leave_out)
    })
}

fn opened(windows: Zarr, leave_out: bool) -> Result<Opened> {
    let is_one_array = windows.is_one_array();
    if leave_out {
        let windows = windows.without_damage()?;
        let (damages, windows) = (windows.damages().to_vec(), Arc::new(windows));
        let cache = BlockCache::of(&windows, |windows| windows.dataset().cache_info());
        let dataset = Dataset(Arc::clone(&windows) as Arc<dyn sluicegate::Dataset>);
        return Ok((dataset, is_one_array, cache, WindowBlocks(BlocksOf::Whole(windows)), damages));
    }
    let windows = Arc::new(windows);
    let cache = BlockCache::of(&windows, Zarr::cache_info);
    let dataset = Dataset(Arc::clone(&windows) as Arc<dyn sluicegate::Dataset>);
    Ok((dataset, is_one_array, cache, WindowBlocks(BlocksOf::All(windows)), Vec::new()))
}

/// The arguments for reading a Zarr store, as passed from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ZarrArguments {
    fields: Option<Vec<String>>,
    window: Option<Vec<(String, usize)>>,
    stride: Vec<(String, usize)>,
    region: Vec<(String, usize, Option<usize>)>,
    edges: String,
    order: String,
    decode_cf: bool,
    cache_bytes: usize,
    leave_out: bool,
}

impl ZarrArguments {
    /// Converts them to the core's options.
    pub(crate) fn options(self) -> Result<ZarrOptions> {
        Ok(ZarrOptions {
            fields: self.fields,
            window: self.window,
            stride: self.stride,
            region: self.region,
            edges: match &self.edges[..] {
                "drop" => WindowEdges::Drop,
                "pad" => WindowEdges::Pad,
                "shift" => WindowEdges::Shift,
                other => return Err(unknown("edges", other)),
            },
            order: match &self.order[..] {
                "rows" => WindowOrder::Rows,
                "chunks" => WindowOrder::Chunks,
                other => return Err(unknown("order", other)),
            },
            decode_cf: self.decode_cf,
            cache_bytes: Some(self.cache_bytes),
        })
    }
}

/// An array of a format other than Zarr, as passed from Python.
#[derive(FromPyObject)]
pub(crate) struct ArrayArguments {
    name: String,
    path: PathBuf,
    metadata: String,
    attributes: String,
    single_attributes: Vec<String>,
    fill: Vec<u8>,
    /// (name, data type (`"S"`: a string, whose shape is its number of bytes), offset in a record, shape).
    members: Vec<(String, String, usize, Vec<usize>)>,
    /// Offset of the elements in the file, if they are contiguous.
    offset: Option<u64>,
    /// For each chunk: its number, its offset, its number of bytes, and which codecs were not applied. In native byte
    /// order.
    chunks: Option<Vec<u8>>,
    /// The elements themselves.
    inline: Option<Vec<u8>>,
    /// The Python object that reads them, if the core cannot.
    library: Option<Py<PyAny>>,
}

impl ArrayArguments {
    /// Converts this to the core's description of the array.
    pub(crate) fn array(self) -> Result<ForeignArray> {
        let refuse = |reason: String| Error::InvalidArgument { argument: "arrays", reason };
        let member = |(name, dtype, offset, shape): (String, String, usize, Vec<usize>)| {
            let is_text = dtype == "S";
            let (dtype, is_big) = match is_text {
                true => (DType::UInt8, false),
                false => numpy_type(&Value::String(dtype)).map_err(refuse)?,
            };
            Ok(Member { name, offset, dtype, is_big, shape, is_text })
        };
        let chunks = match (self.offset, self.chunks, self.inline, self.library) {
            (None, None, None, Some(library)) => {
                ForeignChunks::Read(ReadChunks::of(&self.path, Box::new(PythonChunks(library)))?)
            }
            (Some(offset), None, None, None) => {
                ForeignChunks::Contiguous { source: ReferenceSource::known(&self.path)?, offset }
            }
            (None, Some(chunks), None, None) => {
                let numbers = chunks.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number));
                let numbers: Vec<u64> = numbers.collect();
                let reference = |&[number, offset, bytes, skipped]: &[u64; 4]| Reference {
                    number,
                    source: 0,
                    skipped: skipped as u32,
                    offset,
                    bytes: Some(bytes),
                };
                let chunks = numbers.as_chunks::<4>().0.iter().map(reference).collect();
                let layout = ReferenceLayout::Listed(chunks);
                ForeignChunks::Chunked { source: ReferenceSource::known(&self.path)?, layout }
            }
            (None, None, Some(bytes), None) => {
                let whole = Reference { number: 0, source: 0, skipped: 0, offset: 0, bytes: None };
                let source = ReferenceSource::Inline(bytes);
                ForeignChunks::Chunked { source, layout: ReferenceLayout::Listed(vec![whole]) }
            }
            _ => return Err(refuse(format!("expected one place of the elements of {:?}", self.name))),
        };
        Ok(ForeignArray {
            name: self.name,
            path: self.path,
            metadata: self.metadata,
            attributes: self.attributes,
            single_attributes: self.single_attributes,
            fill: self.fill,
            members: self.members.into_iter().map(member).collect::<Result<_>>()?,
            chunks,
        })
    }
}

/// The blocks of the windows of a Zarr store, which are listed only on request.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct WindowBlocks(BlocksOf);

/// The windows that have the blocks.
enum BlocksOf {
    All(Arc<Zarr>),
    /// Without the windows that were left out.
    Whole(Arc<WholeSamples<Zarr>>),
}

#[pymethods]
impl WindowBlocks {
    /// Returns the number of windows in each block, along each axis that has windows, before any are left out.
    fn counts(&self) -> Vec<Vec<usize>> {
        match &self.0 {
            BlocksOf::All(windows) => windows.block_counts(),
            BlocksOf::Whole(windows) => windows.dataset().block_counts(),
        }
    }

    /// Returns how many windows remain in blocks of these sizes.
    fn left(&self, sizes: Vec<usize>) -> Vec<usize> {
        match &self.0 {
            BlocksOf::All(_) => sizes,
            BlocksOf::Whole(windows) => whole_sizes(windows, sizes),
        }
    }
}
