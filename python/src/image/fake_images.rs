//! `fake_images`: images of random pixels, made as they are read.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sluicegate::ChannelOrder;
use sluicegate::internal::{FakeImages, PixelPipeline};

use super::transforms::transforms_of;
use crate::dataset::Dataset;

/// Returns `len` samples of torchvision's `FakeData` with seeds from `seed` on, transformed by `transforms` (a list in
/// JSON): images of this `shape` (channels, height, width), and labels below `labels`. Raises ValueError if images
/// don't always get the same form.
#[pyfunction]
pub(crate) fn fake_images(
    len: usize,
    seed: u64,
    labels: u64,
    shape: [usize; 3],
    transforms: &str,
) -> PyResult<Dataset> {
    if labels == 0 {
        return Err(PyValueError::new_err("labels: expected at least 1, got 0"));
    }
    let [channels, height, width] = shape;
    let pipeline = PixelPipeline::new(transforms_of(transforms)?, [height, width], channels, ChannelOrder::First);
    let pipeline = pipeline.map_err(PyValueError::new_err)?;
    Ok(Dataset(Arc::new(FakeImages::new(["0", "1"], len, seed, labels, pipeline))))
}
