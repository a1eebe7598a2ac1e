//! `pixel_images` and `stored_images`: images whose pixels are stored, transformed as they are read; how these and
//! similar datasets draw.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sluicegate::internal::{Drawing, PixelImages, PixelPipeline, Pixels};
use sluicegate::{ChannelOrder, DType};

use super::transforms::transforms_of;
use crate::dataset::Dataset;
use crate::error::to_python;
use crate::in_memory::in_memory;
use crate::memory::ForeignArray;

/// Returns `images`, an array of bytes in memory, transformed by `transforms` (a list in JSON), in a field of their
/// own, followed by the other `arrays`. Channels are the last axis if `is_last`, else the first; an image with two axes
/// has one channel. Raises ValueError if images don't always get the same form, or are rejected.
#[pyfunction]
pub(crate) fn pixel_images(
    py: Python<'_>,
    images: ForeignArray,
    arrays: Vec<ForeignArray>,
    transforms: &str,
    is_last: bool,
) -> PyResult<Dataset> {
    let (field, images) = images.into_field().map_err(|error| to_python(py, error))?;
    let (size, channels, order) = match *field.shape() {
        [height, width] => ([height, width], 1, ChannelOrder::Last),
        [height, width, channels] if is_last => ([height, width], channels, ChannelOrder::Last),
        [channels, height, width] => ([height, width], channels, ChannelOrder::First),
        _ => {
            return Err(PyValueError::new_err(format!(
                "expected images with two or three axes, got {:?}",
                field.shape()
            )));
        }
    };
    let pipeline =
        PixelPipeline::new(transforms_of(transforms)?, size, channels, order).map_err(PyValueError::new_err)?;
    let made =
        in_memory(arrays).and_then(|others| PixelImages::new(field.name(), Pixels::InMemory(images), pipeline, others));
    made.map(|images| Dataset(Arc::new(images))).map_err(|error| to_python(py, error))
}

/// Like `pixel_images`, for the samples of `images`: one field of three axes, channels last.
#[pyfunction]
pub(crate) fn stored_images(
    py: Python<'_>,
    images: &Dataset,
    arrays: Vec<ForeignArray>,
    transforms: &str,
) -> PyResult<Dataset> {
    let fields = images.0.schema().fields();
    let [height, width, channels] = match fields {
        [field] if field.dtype() == DType::UInt8 => field.shape().try_into().unwrap_or_default(),
        _ => [0; 3],
    };
    if height * width * channels == 0 {
        return Err(PyValueError::new_err(format!("expected images with three axes, got {}", images.0.schema())));
    }
    let pipeline = PixelPipeline::new(transforms_of(transforms)?, [height, width], channels, ChannelOrder::Last)
        .map_err(PyValueError::new_err)?;
    let pixels = Pixels::Stored(Arc::clone(&images.0));
    let made = in_memory(arrays).and_then(|others| PixelImages::new(fields[0].name(), pixels, pipeline, others));
    made.map(|images| Dataset(Arc::new(images))).map_err(|error| to_python(py, error))
}

/// True if random samples of `dataset` can draw from one generator in sequence.
#[pyfunction]
pub(crate) fn draws_in_order(dataset: &Dataset) -> bool {
    dataset.0.as_drawing().is_some()
}

/// True if random samples of `dataset` may then draw from Python's generator, too.
#[pyfunction]
pub(crate) fn draws_from_python(dataset: &Dataset) -> bool {
    dataset.0.as_drawing().is_some_and(Drawing::draws_from_python)
}
