//! `ImageTransforms`: draws the random values of image transforms from a torch generator.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sluicegate::internal::{ImageShape, Operation, fixed_size};
use sluicegate::{DType, ImageTransform};

use crate::generators::torch_generator::draw_from;

/// Parses the transforms in `json`, a list passed as the argument `transforms`.
pub(crate) fn transforms_of(json: &str) -> PyResult<Vec<ImageTransform>> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("transforms: {error}")))
}

/// Transforms, in sequence. Threads may share them.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct ImageTransforms {
    transforms: Vec<ImageTransform>,
}

#[pymethods]
impl ImageTransforms {
    /// Parses the transforms in `json`, a list.
    #[new]
    fn new(json: &str) -> PyResult<Self> {
        let transforms = serde_json::from_str(json);
        let refuse = |error| PyValueError::new_err(format!("invalid image transforms: {error}"));
        Ok(Self { transforms: transforms.map_err(refuse)? })
    }

    /// Returns the operations for an image of this shape, as a list in JSON. They are drawn from `generator`: a tuple
    /// for fast access, or an object that uses the public API, with methods `take()` and `put(state)`. It is not used
    /// if nothing is random.
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

    /// True if random values are drawn.
    fn is_random(&self) -> bool {
        self.transforms.iter().any(ImageTransform::is_random)
    }

    /// Returns the height and the width that every image ends with; None if they depend on the image.
    fn fixed_size(&self) -> Option<(usize, usize)> {
        fixed_size(&self.transforms).map(|[height, width]| (height, width))
    }

    /// Returns the final channels and data type of images that start with these.
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
            // The generator's state is not read.
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
