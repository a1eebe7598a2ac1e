//! `ImageOperations`: operations on an image, its boxes, and its masks, with all their random values already drawn.

use std::sync::{Arc, LazyLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sluicegate::DType;
use sluicegate::internal::{
    AnyPicture, Array, Boxes, Clamping, Coordinates, KeyPoints, Lease, MaskValue, Operation, Picture, ProductRounding,
    Slab,
};

use crate::detach::detach;
use crate::error::to_python;
use crate::memory::{ForeignArray, capsule};

/// Slots kept for the next images: a user holds few at a time.
const FREE_SLOTS: usize = 4;

/// Shared by all: operations are drawn again for each image.
static SLAB: LazyLock<Slab> = LazyLock::new(|| Slab::new(FREE_SLOTS));

/// `sluicegate._torch.from_dlpack`.
static FROM_DLPACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A tensor to hand over.
type Tensor = (Lease, DType, [usize; 3]);
/// A result, or the reason why it is refused; or an error.
type Refusable<T> = sluicegate::Result<Result<T, String>>;

/// Steps, in sequence. Threads may share them, and a forked process may continue to use them.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct ImageOperations(pub(crate) Vec<Operation>);

#[pymethods]
impl ImageOperations {
    /// Parses the operations of a JSON list.
    #[new]
    fn new(json: &str) -> PyResult<Self> {
        let operations = serde_json::from_str(json);
        operations.map(Self).map_err(|error| PyValueError::new_err(format!("operations: {error}")))
    }

    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns an image after all steps, a tensor (channels, height, width). `image` is such a tensor of uint8 or
    /// float32: (name, dtype, address, shape, strides in bytes, owner).
    fn apply<'py>(&self, py: Python<'py>, image: ForeignArray) -> PyResult<Bound<'py, PyAny>> {
        let (dtype, shape, array) = parts(py, image)?;
        hand_over(py, detach(py, || self.image(dtype, shape, &array))?)
    }

    /// Like `apply`, for masks (masks, height, width) of bools, integers, or floats of 32 or 64 bits.
    fn mask<'py>(&self, py: Python<'py>, mask: ForeignArray) -> PyResult<Bound<'py, PyAny>> {
        let (dtype, shape, array) = parts(py, mask)?;
        hand_over(py, detach(py, || self.masks(dtype, shape, &array))?)
    }

    /// Returns the boxes after all steps, four numbers each in `format`, and the (height, width) of the image that they
    /// are then in; then the indices of those that remain, if some may have been dropped, and their format. `numbers`
    /// is "float32", "float64", or "integer".
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn boxes(
        &self,
        py: Python<'_>,
        boxes: Vec<[f64; 4]>,
        format: &str,
        canvas: (usize, usize),
        numbers: &str,
        is_clamped: bool,
    ) -> PyResult<(Vec<[f64; 4]>, (usize, usize), Option<Vec<usize>>, &'static str)> {
        let boxes = boxes_of(py, (boxes, format.to_owned(), numbers.to_owned()))?;
        let clamping = if is_clamped { Clamping::Canvas } else { Clamping::Off };
        let mut boxes = Boxes { height: canvas.0, width: canvas.1, clamping, ..boxes };
        for operation in &self.0 {
            operation.apply_to_boxes(&mut boxes).map_err(PyValueError::new_err)?;
        }
        Ok((boxes.numbers, (boxes.height, boxes.width), boxes.rows, boxes.format.name()))
    }

    /// Returns the key points (x, y) after all steps, in an image of this (height, width). `numbers` is as for boxes.
    fn key_points(&self, places: Vec<[f64; 2]>, size: (usize, usize), numbers: &str) -> PyResult<Vec<[f64; 2]>> {
        let coordinates = coordinates_of(numbers)?;
        let mut points = KeyPoints { places, height: size.0, width: size.1, coordinates };
        for operation in &self.0 {
            operation.apply_to_key_points(&mut points).map_err(PyValueError::new_err)?;
        }
        Ok(points.places)
    }
}

impl ImageOperations {
    fn image(&self, dtype: DType, [channels, height, width]: [usize; 3], array: &Array) -> Refusable<Tensor> {
        let mut planes = vec![0; array.bytes_per_row() * channels];
        array.copy_range(0..channels, &mut planes)?;
        let mut picture = match dtype {
            DType::UInt8 => AnyPicture::Bytes(interleaved(&planes, [channels, height, width], |[byte]| byte)),
            DType::Float32 => AnyPicture::Floats(interleaved(&planes, [channels, height, width], f32::from_ne_bytes)),
            _ => return Ok(Err(format!("image: expected uint8 or float32, but got {dtype}"))),
        };
        for operation in &self.0 {
            picture = match operation.apply(picture) {
                Ok(picture) => picture,
                Err(reason) => return Ok(Err(reason)),
            };
        }
        match picture {
            AnyPicture::Bytes(picture) => lease_planes(&picture, DType::UInt8, |value| [value]),
            AnyPicture::Floats(picture) => lease_planes(&picture, DType::Float32, f32::to_ne_bytes),
        }
        .map(Ok)
    }

    fn masks(&self, dtype: DType, shape: [usize; 3], array: &Array) -> Refusable<Tensor> {
        match dtype {
            DType::Bool => self.masks_of(dtype, shape, array, |[byte]| byte != 0, |value| [u8::from(value)]),
            DType::UInt8 => self.masks_of(dtype, shape, array, u8::from_ne_bytes, u8::to_ne_bytes),
            DType::Int8 => self.masks_of(dtype, shape, array, i8::from_ne_bytes, i8::to_ne_bytes),
            DType::Int16 => self.masks_of(dtype, shape, array, i16::from_ne_bytes, i16::to_ne_bytes),
            DType::Int32 => self.masks_of(dtype, shape, array, i32::from_ne_bytes, i32::to_ne_bytes),
            DType::Int64 => self.masks_of(dtype, shape, array, i64::from_ne_bytes, i64::to_ne_bytes),
            DType::Float32 => self.masks_of(dtype, shape, array, f32::from_ne_bytes, f32::to_ne_bytes),
            DType::Float64 => self.masks_of(dtype, shape, array, f64::from_ne_bytes, f64::to_ne_bytes),
            _ => Ok(Err(format!("mask: expected integers, bool or floats of 32 or 64 bits, but got {dtype}"))),
        }
    }

    /// Transforms masks one by one: their number does not depend on the number of pixels.
    fn masks_of<T: MaskValue, const BYTES: usize>(
        &self,
        dtype: DType,
        [masks, height, width]: [usize; 3],
        array: &Array,
        read: impl Fn([u8; BYTES]) -> T,
        write: impl Fn(T) -> [u8; BYTES],
    ) -> Refusable<Tensor> {
        let mut bytes = vec![0; array.bytes_per_row()];
        let size = self.0.iter().fold((height, width), |(height, width), step| step.size_after(height, width));
        let mut lease = SLAB.lease(masks * size.0 * size.1 * BYTES)?;
        let plane = (size.0 * size.1 * BYTES).max(1);
        for (index, into) in (0..masks).zip(lease.bytes_mut().chunks_exact_mut(plane)) {
            array.copy_row(index, &mut bytes)?;
            let mut mask = interleaved(&bytes, [1, height, width], &read);
            for operation in &self.0 {
                mask = match operation.apply_to_mask(mask) {
                    Ok(mask) => mask,
                    Err(reason) => return Ok(Err(reason)),
                };
            }
            for (value, into) in mask.pixels().iter().zip(into.as_chunks_mut().0) {
                *into = write(*value);
            }
        }
        Ok(Ok((lease, dtype, [masks, size.0, size.1])))
    }
}

/// Boxes from Python: four numbers each, their format, and "float32", "float64", or "integer".
pub(crate) type GivenBoxes = (Vec<[f64; 4]>, String, String);

/// Returns the boxes, in an image whose size is not set yet.
pub(crate) fn boxes_of(py: Python<'_>, (numbers, format, kind): GivenBoxes) -> PyResult<Boxes> {
    let coordinates = coordinates_of(&kind)?;
    let format = format.parse().map_err(|error| to_python(py, error))?;
    Ok(Boxes { numbers, format, coordinates, ..Boxes::default() })
}

fn coordinates_of(kind: &str) -> PyResult<Coordinates> {
    match kind {
        "float32" => Ok(Coordinates::Single),
        "float64" => Ok(Coordinates::Double),
        "integer" => Ok(Coordinates::Whole),
        _ => Err(PyValueError::new_err(format!("numbers: expected 'float32', 'float64' or 'integer', got {kind:?}"))),
    }
}

/// Returns the data type, shape, and elements of a tensor with three axes.
fn parts(py: Python<'_>, array: ForeignArray) -> PyResult<(DType, [usize; 3], Array)> {
    let (field, array) = array.into_field().map_err(|error| to_python(py, error))?;
    match field.shape()[..] {
        [height, width] => Ok((field.dtype(), [array.len(), height, width], array)),
        _ => Err(PyValueError::new_err(format!("{}: expected three dimensions", field.name()))),
    }
}

fn hand_over<'py>(py: Python<'py>, tensor: Result<Tensor, String>) -> PyResult<Bound<'py, PyAny>> {
    let (lease, dtype, shape) = tensor.map_err(PyValueError::new_err)?;
    FROM_DLPACK.import(py, "sluicegate._torch", "from_dlpack")?.call1((capsule(
        py,
        &Arc::new(lease),
        0,
        (dtype, &shape),
    )?,))
}

/// Returns the picture of planes, which are stored one channel after the other.
fn interleaved<T: Copy + Default, const BYTES: usize>(
    planes: &[u8],
    [channels, height, width]: [usize; 3],
    read: impl Fn([u8; BYTES]) -> T,
) -> Picture<T> {
    let planes = planes.as_chunks::<BYTES>().0;
    let pixels = match channels {
        1 => planes.iter().map(|&bytes| read(bytes)).collect(),
        3 => {
            let (red, others) = planes.split_at(height * width);
            let (green, blue) = others.split_at(height * width);
            let colors = red.iter().zip(green).zip(blue);
            colors.flat_map(|((&red, &green), &blue)| [read(red), read(green), read(blue)]).collect()
        }
        _ => {
            let mut pixels = vec![T::default(); planes.len()];
            for (channel, plane) in planes.chunks_exact((height * width).max(1)).enumerate() {
                for (value, bytes) in pixels.iter_mut().skip(channel).step_by(channels).zip(plane) {
                    *value = read(*bytes);
                }
            }
            pixels
        }
    };
    Picture::new(width, height, channels, pixels)
}

fn lease_planes<T: Copy, const BYTES: usize>(
    picture: &Picture<T>,
    dtype: DType,
    write: impl Fn(T) -> [u8; BYTES],
) -> sluicegate::Result<Tensor> {
    let shape = [picture.channels(), picture.height(), picture.width()];
    let mut lease = SLAB.lease(picture.pixels().len() * BYTES)?;
    let planes = lease.bytes_mut().as_chunks_mut::<BYTES>().0;
    let plane = (picture.height() * picture.width()).max(1);
    for (channel, plane) in planes.chunks_exact_mut(plane).enumerate() {
        match picture.channels() {
            // A step that is known at compile time is faster.
            3 => {
                for (bytes, pixel) in plane.iter_mut().zip(picture.pixels().as_chunks::<3>().0) {
                    *bytes = write(pixel[channel]);
                }
            }
            channels => {
                for (bytes, value) in plane.iter_mut().zip(picture.pixels().iter().skip(channel).step_by(channels)) {
                    *bytes = write(*value);
                }
            }
        }
    }
    Ok((lease, dtype, shape))
}

/// Sets how warps round sums of products in this process: "fused" or "separate", as torch does on this machine.
#[pyfunction]
pub(crate) fn round_products(rounding: &str) -> PyResult<()> {
    match rounding {
        "fused" => ProductRounding::Fused.set(),
        "separate" => ProductRounding::Separate.set(),
        _ => {
            let message = format!("rounding: expected 'fused' or 'separate', but got {rounding:?}");
            return Err(PyValueError::new_err(message));
        }
    }
    Ok(())
}
