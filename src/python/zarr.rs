//! Zarr stores: how they are read, as Python says it, and the blocks of their windows.

use std::sync::Arc;

use pyo3::prelude::*;

use super::error::unknown;
use crate::{Result, WindowEdges, WindowOrder, Zarr, ZarrOptions};

/// How a Zarr store is read, as Python says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct ZarrArguments {
    fields: Option<Vec<String>>,
    window: Option<Vec<(String, usize)>>,
    stride: Vec<(String, usize)>,
    edges: String,
    order: String,
    decode_cf: bool,
    cache_bytes: usize,
}

impl ZarrArguments {
    /// The core's options.
    pub(super) fn options(self) -> Result<ZarrOptions> {
        Ok(ZarrOptions {
            fields: self.fields,
            window: self.window,
            stride: self.stride,
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

/// The blocks of the windows of a Zarr store, which are listed only when they are asked for.
#[pyclass(frozen, module = "sluicegate._core")]
pub(super) struct WindowBlocks(Arc<Zarr>);

impl WindowBlocks {
    /// Those of `windows`.
    pub(super) fn of(windows: &Arc<Zarr>) -> Self {
        Self(Arc::clone(windows))
    }
}

#[pymethods]
impl WindowBlocks {
    /// The number of windows in each block, along each axis that has windows.
    fn counts(&self) -> Vec<Vec<usize>> {
        self.0.block_counts()
    }
}
