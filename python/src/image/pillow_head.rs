//! `PillowHead`: the first transforms of a pipeline whose later ones are in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use sluicegate::internal::{Beginning, PlainFile};
use sluicegate::{ChannelOrder, ImagePipeline, TorchGenerator, TransformedImage};

use super::file_images::ask_torch_for_exp;
use super::transforms::transforms_of;
use crate::detach::detach;
use crate::generators::torch_generator::draw_from;

/// Decodes a JPEG file and applies the transforms to it, with the values and draws of Pillow and torchvision.
///
/// Threads may share it, but they must not share the generator.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct PillowHead(ImagePipeline);

#[pymethods]
impl PillowHead {
    /// Applies `transforms`, a list in JSON; channels come last if `is_last`.
    #[new]
    fn new(transforms: &str, is_last: bool) -> PyResult<Self> {
        ask_torch_for_exp();
        let order = if is_last { ChannelOrder::Last } else { ChannelOrder::First };
        Ok(Self(ImagePipeline::new(transforms_of(transforms)?).as_pillow().with_order(order)))
    }

    /// True if `run` draws from the generator.
    #[getter]
    fn is_random(&self) -> bool {
        self.0.is_random()
    }

    /// Returns the shape and the values of the image in `encoded`, in color. Returns None, having drawn nothing, unless
    /// it is a sound JPEG that is known to give Pillow's values. `generator` gives access to torch's (`draw_from`).
    fn run<'py>(
        &self,
        py: Python<'py>,
        encoded: &[u8],
        generator: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<([usize; 3], Bound<'py, PyByteArray>)>> {
        let Beginning::Plain(file @ PlainFile::Jpeg(_)) = PlainFile::of(encoded) else {
            return Ok(None);
        };
        let mut was_refused = false;
        let mut make = |drawn: Option<&mut TorchGenerator>| {
            let made = detach(py, || Ok(self.0.run_plain(encoded, &file, drawn)))?;
            made.map_err(|reason| {
                was_refused = true;
                // Any error makes `draw_from` leave the generator unchanged.
                PyValueError::new_err(reason)
            })
        };
        let made = match generator {
            Some(generator) => draw_from(generator, |drawn| make(Some(drawn))),
            None => make(None),
        };
        match made {
            Ok(image) => bytes_of(py, image).map(Some),
            Err(_) if was_refused => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn bytes_of(py: Python<'_>, image: TransformedImage) -> PyResult<([usize; 3], Bound<'_, PyByteArray>)> {
    let shape = image.shape();
    let bytes = image.bytes();
    let write = |room: &mut [u8]| image.write(room).map_err(PyValueError::new_err);
    Ok((shape, PyByteArray::new_with(py, bytes, write)?))
}
