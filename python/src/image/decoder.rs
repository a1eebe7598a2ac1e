//! `ImageDecoder`: decodes images to tensors.

use std::sync::Arc;

use pyo3::prelude::*;
use sluicegate::internal::{Slab, image_size};
use sluicegate::{DecodeOptions, Image, Orientation, Truncated};

use crate::detach::detach;
use crate::error::{damaged_image, to_python};
use crate::memory::capsule;

/// Slots kept for the next images: a user holds few at a time.
const FREE_SLOTS: usize = 2;

/// Decodes images on the calling thread. Threads may share it, and a forked process may continue to use it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct ImageDecoder {
    pub(crate) options: DecodeOptions,
    slab: Slab,
    pub(crate) from_dlpack: Py<PyAny>,
}

#[pymethods]
impl ImageDecoder {
    /// Decodes to `mode` ("RGB", "L", "RGBA", or "unchanged"), applies the EXIF orientation if `is_turned`, fills in
    /// damaged JPEGs if `is_filled`, and rejects more than `max_pixels`. `from_dlpack` makes a tensor from a capsule.
    #[new]
    fn new(
        py: Python<'_>,
        mode: &str,
        is_turned: bool,
        is_filled: bool,
        max_pixels: u64,
        from_dlpack: Py<PyAny>,
    ) -> PyResult<Self> {
        let options = DecodeOptions {
            mode: mode.parse().map_err(|error| to_python(py, error))?,
            orientation: if is_turned { Orientation::Exif } else { Orientation::AsStored },
            truncated: if is_filled { Truncated::Fill } else { Truncated::Refuse },
            max_pixels,
        };
        Ok(Self { options, slab: Slab::new(FREE_SLOTS), from_dlpack })
    }

    /// Returns the tensor (channels, height, width) of the image in `encoded`.
    fn decode<'py>(&self, py: Python<'py>, encoded: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = detach(py, || {
            let image = match Image::decode(encoded, &self.options) {
                Ok(image) => image,
                Err(reason) => return Ok(Err(reason)),
            };
            let mut lease = self.slab.lease(image.pixels().len())?;
            image.write_channels_first(lease.bytes_mut());
            let [height, width, channels] = image.shape();
            Ok(Ok((lease, image.dtype(), [channels, height, width])))
        })?;
        let (lease, dtype, shape) = decoded.map_err(|reason| damaged_image(py, reason))?;
        self.from_dlpack.bind(py).call1((capsule(py, &Arc::new(lease), 0, (dtype, &shape))?,))
    }

    /// Returns the width and the height of the image in `encoded`, as stored.
    #[staticmethod]
    fn size(py: Python<'_>, encoded: &[u8]) -> PyResult<(usize, usize)> {
        detach(py, || Ok(image_size(encoded)))?.map_err(|reason| damaged_image(py, reason))
    }
}
