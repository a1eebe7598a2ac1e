//! `ImageTransforms`: what is random about an image's transforms, drawn from a generator of torch's.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sluicegate::internal::fixed_size;
use sluicegate::{DType, ImageShape, ImageTransform, Operation};

use crate::torch_generator::draw_from;

/// The transforms that `json`, a list that the argument `transforms` gives, describes.
pub(crate) fn transforms_of(json: &str) -> PyResult<Vec<ImageTransform>> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("transforms: {error}")))
}

/// Transforms, one after the other. Threads may share them.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct ImageTransforms {
    transforms: Vec<ImageTransform>,
}

#[pymethods]
impl ImageTransforms {
    /// The transforms that `json`, a list, describes.
    #[new]
    fn new(json: &str) -> PyResult<Self> {
        let transforms = serde_json::from_str(json);
        let refuse = |error| PyValueError::new_err(format!("invalid image transforms: {error}"));
        Ok(Self { transforms: transforms.map_err(refuse)? })
    }

    /// The operations for an image of this shape, as a list in JSON. They are drawn from `generator`: a tuple of what the
    /// fast way to it needs, or an object that goes the public way, by the methods `take()` and `put(state)`. It is left
    /// alone where nothing is random.
    fn draw_json(
        &self,
        height: usize,
        width: usize,
        channels: usize,
        dtype: &str,
        generator: &Bound<'_, PyAny>,
    ) -> PyResult<String> {
        let operations = self.operations(height, width, channels, dtype, generator)?;
        serde_json::to_string(&operations).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// True if anything is drawn.
    fn is_random(&self) -> bool {
        self.transforms.iter().any(ImageTransform::is_random)
    }

    /// The height and the width that every image ends with; None where they depend on the image.
    fn fixed_size(&self) -> Option<(usize, usize)> {
        fixed_size(&self.transforms).map(|[height, width]| (height, width))
    }

    /// The channels and the data type of images that began with these.
    fn output(&self, channels: usize, dtype: &str) -> PyResult<(usize, &'static str)> {
        let before = (channels, parse(dtype)?);
        let after = self.transforms.iter().try_fold(before, |(channels, dtype), each| each.output(channels, dtype));
        after.map(|(channels, dtype)| (channels, dtype.name())).map_err(PyValueError::new_err)
    }
}

impl ImageTransforms {
    fn operations(
        &self,
        height: usize,
        width: usize,
        channels: usize,
        dtype: &str,
        generator: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Operation>> {
        let shape = ImageShape { height, width, channels, dtype: parse(dtype)? };
        if !self.is_random() {
            // No state is looked at.
            return self.draw(shape, &mut sluicegate::TorchGenerator::new(0));
        }
        draw_from(generator, |generator| self.draw(shape, generator))
    }

    fn draw(&self, mut shape: ImageShape, generator: &mut sluicegate::TorchGenerator) -> PyResult<Vec<Operation>> {
        let mut operations = Vec::new();
        let mut draws = self.transforms.iter();
        draws.try_for_each(|each| each.draw(&mut shape, generator, &mut operations)).map_err(PyValueError::new_err)?;
        Ok(operations)
    }
}

fn parse(dtype: &str) -> PyResult<DType> {
    dtype.parse().map_err(|error: sluicegate::Error| PyValueError::new_err(error.to_string()))
}
