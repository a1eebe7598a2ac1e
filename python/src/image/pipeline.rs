//! `ImagePipeline`: decodes and transforms images to tensors.

use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sluicegate::internal::{Boxes, EncodedField, ImageLink, ImageSources, JpegScale, Moves, Slab};
use sluicegate::{ChannelOrder, DecodedField, DecodedImages, TorchGenerator};

use super::decoder::ImageDecoder;
use super::operations::{GivenBoxes, ImageOperations, boxes_of};
use crate::dataset::Dataset;
use crate::detach::detach;
use crate::error::{damaged_image, to_python};
use crate::generators::torch_generator::draw_from;
use crate::memory::capsule;

/// Slots kept for the next images: a user holds few at a time.
const FREE_SLOTS: usize = 2;

/// Decodes and transforms images on the calling thread. Threads may share it, and a forked process may continue to use
/// it.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct ImagePipeline {
    pipeline: sluicegate::ImagePipeline,
    slab: Slab,
    from_dlpack: Py<PyAny>,
}

#[pymethods]
impl ImagePipeline {
    /// Decodes like `decoder`, and applies `transforms`, a list in JSON. JPEG is decoded at full size if `is_exact`;
    /// channels come last if `is_last`; images are kept in `cache`, by number.
    #[new]
    #[pyo3(signature = (transforms, decoder, is_exact, is_last, cache=None))]
    fn new(
        py: Python<'_>,
        transforms: &str,
        decoder: &ImageDecoder,
        is_exact: bool,
        is_last: bool,
        cache: Option<&ImageCache>,
    ) -> PyResult<Self> {
        let transforms = serde_json::from_str(transforms);
        let refuse = |error| PyValueError::new_err(format!("invalid image transforms: {error}"));
        let scale = if is_exact { JpegScale::Full } else { JpegScale::Least };
        let order = if is_last { ChannelOrder::Last } else { ChannelOrder::First };
        let pipeline = sluicegate::ImagePipeline::new(transforms.map_err(refuse)?);
        let pipeline = pipeline.with_decode(decoder.options).with_scale(scale).with_order(order);
        let pipeline = match cache {
            Some(cache) => pipeline.with_cache(Arc::clone(&cache.0)),
            None => pipeline,
        };
        Ok(Self { pipeline, slab: Slab::new(FREE_SLOTS), from_dlpack: decoder.from_dlpack.clone_ref(py) })
    }

    /// Returns the tensor of the image in `encoded`, which has this number. Random values are drawn from `generator`,
    /// as for `draw_from`.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        encoded: &[u8],
        number: usize,
        generator: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.run(py, (encoded, number), None, generator)?.0)
    }

    /// Like `decode`; also returns the steps that moved pixels, and the image's original (height, width), for its boxes
    /// and masks. Transforms draw by `boxes`: four numbers each, their format, and "float32", "float64", or "integer".
    #[pyo3(signature = (encoded, number, generator, boxes=None))]
    fn decode_moved<'py>(
        &self,
        py: Python<'py>,
        encoded: &[u8],
        number: usize,
        generator: Option<&Bound<'py, PyAny>>,
        boxes: Option<GivenBoxes>,
    ) -> PyResult<(Bound<'py, PyAny>, ImageOperations, (usize, usize))> {
        let boxes = boxes.map(|boxes| boxes_of(py, boxes)).transpose()?;
        let (image, moves) = self.run(py, (encoded, number), boxes, generator)?;
        let [height, width] = moves.size();
        Ok((image, ImageOperations(moves.operations().to_vec()), (height, width)))
    }

    /// Like `decode`, for several images of one form, drawn in sequence. Returns the tensors, which share their memory,
    /// and which one failed, and why. Images after that one were not drawn.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn decode_many<'py>(
        &self,
        py: Python<'py>,
        encoded: Vec<Bound<'py, PyBytes>>,
        numbers: Vec<usize>,
        generator: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, Option<(usize, String)>)> {
        let form = self.pipeline.form().ok_or_else(|| PyValueError::new_err("the images have no fixed size"))?;
        let files: Vec<&[u8]> = encoded.iter().map(|file| file.as_bytes()).collect();
        if numbers.len() != files.len() {
            return Err(PyValueError::new_err("expected one number for each image"));
        }
        let bytes = form.shape.iter().product::<usize>() * form.dtype.bytes();
        let run = |mut generator: Option<&mut TorchGenerator>| {
            detach(py, || {
                let mut lease = self.slab.lease(bytes.saturating_mul(files.len()))?;
                let rooms = lease.bytes_mut().chunks_exact_mut(bytes.max(1));
                let failed =
                    rooms.zip(files.iter().zip(&numbers)).enumerate().find_map(|(row, (room, (file, number)))| {
                        let image = self.pipeline.run_number(*number, || file, generator.as_deref_mut());
                        image.and_then(|image| image.write(room)).err().map(|reason| (row, reason))
                    });
                Ok((lease, failed))
            })
        };
        let (lease, failed) = self.draw_for(generator, run)?;
        let lease = Arc::new(lease);
        let tensor = |row: usize| {
            let capsule = capsule(py, &lease, row * bytes, (form.dtype, &form.shape))?;
            self.from_dlpack.bind(py).call1((capsule,))
        };
        Ok(((0..files.len()).map(tensor).collect::<PyResult<_>>()?, failed))
    }

    /// Like `decode_many`, in one tensor: rows from the failed one on have unspecified contents. With `keys`, each row
    /// has its own generator; without, all draw from `generator`, and the failed one drew nothing.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        encoded: Vec<Bound<'py, PyBytes>>,
        keys: Option<Vec<u64>>,
        generator: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Option<(usize, String)>)> {
        let form = self.pipeline.form().ok_or_else(|| PyValueError::new_err("the images have no fixed size"))?;
        let files: Vec<&[u8]> = encoded.iter().map(|file| file.as_bytes()).collect();
        if keys.as_ref().is_some_and(|keys| keys.len() != files.len()) {
            return Err(PyValueError::new_err("expected one key for each image"));
        }
        let bytes = form.shape.iter().product::<usize>() * form.dtype.bytes();
        let run = |mut generator: Option<&mut TorchGenerator>| {
            detach(py, || {
                let mut lease = self.slab.lease(bytes.saturating_mul(files.len()))?;
                let rooms = lease.bytes_mut().chunks_exact_mut(bytes.max(1));
                let failed = rooms.zip(&files).enumerate().find_map(|(row, (room, file))| {
                    let mut own = match &keys {
                        Some(keys) => Some(TorchGenerator::of_key(keys[row])),
                        None => generator.as_deref().cloned(),
                    };
                    let image = self.pipeline.run(file, own.as_mut());
                    let outcome = image.and_then(|image| image.write(room));
                    if outcome.is_ok()
                        && let (Some(shared), Some(own)) = (generator.as_deref_mut(), own)
                    {
                        *shared = own;
                    }
                    outcome.err().map(|reason| (row, reason))
                });
                Ok((lease, failed))
            })
        };
        let (lease, failed) = self.draw_for(generator, run)?;
        let shape: Vec<usize> = iter::once(files.len()).chain(form.shape).collect();
        let capsule = capsule(py, &Arc::new(lease), 0, (form.dtype, &shape))?;
        Ok((self.from_dlpack.bind(py).call1((capsule,))?, failed))
    }

    /// True if random values are drawn.
    #[getter]
    fn is_random(&self) -> bool {
        self.pipeline.is_random()
    }

    /// Returns the data type and shape that every image gets; None if they depend on the image.
    #[getter]
    fn form(&self) -> Option<(&'static str, [usize; 3])> {
        self.pipeline.form().map(|form| (form.dtype.name(), form.shape))
    }
}

impl ImagePipeline {
    fn run<'py>(
        &self,
        py: Python<'py>,
        (encoded, number): (&[u8], usize),
        boxes: Option<Boxes>,
        generator: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Moves)> {
        let run = |generator: Option<&mut TorchGenerator>| {
            detach(py, || {
                let image = match self.pipeline.run_number_with_boxes(number, || encoded, boxes, generator) {
                    Ok(image) => image,
                    Err(reason) => return Ok(Err(reason)),
                };
                let (shape, dtype, moves) = (image.shape(), image.dtype(), image.moves().clone());
                let mut lease = self.slab.lease(image.bytes())?;
                Ok(image.write(lease.bytes_mut()).map(|()| (lease, (dtype, shape), moves)))
            })?
            .map_err(|reason| damaged_image(py, reason))
        };
        let (lease, (dtype, shape), moves) = self.draw_for(generator, run)?;
        let capsule = capsule(py, &Arc::new(lease), 0, (dtype, &shape))?;
        Ok((self.from_dlpack.bind(py).call1((capsule,))?, moves))
    }

    /// Returns the result of `run`, with the generator that `way` leads to if one is needed.
    fn draw_for<T>(
        &self,
        way: Option<&Bound<'_, PyAny>>,
        run: impl FnOnce(Option<&mut TorchGenerator>) -> PyResult<T>,
    ) -> PyResult<T> {
        match way {
            Some(way) if self.pipeline.is_random() => draw_from(way, |generator| run(Some(generator))),
            _ => run(None),
        }
    }
}

/// Cached images, before anything random is applied. Threads and forked processes may share the cache.
#[pyclass(frozen, module = "sluicegate._core")]
pub(crate) struct ImageCache(Arc<sluicegate::internal::ImageCache>);

#[pymethods]
impl ImageCache {
    /// Returns a cache of `bytes` bytes for images with numbers below `images`: in memory, or in a file in `folder`.
    #[new]
    fn new(py: Python<'_>, images: usize, bytes: usize, folder: Option<PathBuf>) -> PyResult<Self> {
        let made = match folder {
            None => sluicegate::internal::ImageCache::in_memory(images, bytes),
            Some(folder) => sluicegate::internal::ImageCache::in_folder(&folder, images, bytes),
        };
        made.map(|cache| Self(Arc::new(cache))).map_err(|error| to_python(py, error))
    }

    /// Returns the number of bytes in use.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Returns the samples of `dataset` with these fields: (number; the pipeline, for encoded images and masks; the
/// position of the image that a mask or boxes belong to; the format of boxes). `links` are fields of bytes, each with
/// the field of the paths of files that are read where there are no bytes, and the folder of relative paths. `rows` are
/// positions of boxes, and of fields with a row per box.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple of Python's")]
pub(crate) fn decoded_images(
    py: Python<'_>,
    dataset: &Dataset,
    fields: Vec<(usize, Option<PyRef<'_, ImagePipeline>>, Option<usize>, Option<String>)>,
    links: Links,
    rows: Vec<(usize, usize)>,
) -> PyResult<Dataset> {
    let fields = fields.into_iter().map(|(number, pipeline, image, format)| {
        let pipeline = pipeline.map(|pipeline| pipeline.pipeline.clone());
        Ok(match (pipeline, image, format) {
            (None, Some(image), Some(format)) => {
                DecodedField::Boxes(number, format.parse().map_err(|error| to_python(py, error))?, image)
            }
            (None, ..) => DecodedField::Kept(number),
            (Some(pipeline), None, _) => DecodedField::Image(number, pipeline),
            (Some(pipeline), Some(image), _) => DecodedField::Mask(number, pipeline, image),
        })
    });
    let fields = fields.collect::<PyResult<Vec<_>>>()?;
    let images = DecodedImages::new(Arc::clone(&dataset.0), fields);
    let links = image_links(&links);
    let images = images.and_then(|images| images.with_links(links).with_rows(rows));
    images.map(|images| Dataset(Arc::new(images))).map_err(|error| to_python(py, error))
}

/// Returns which samples of `dataset` have broken images, and why. `fields` are (number, decoder, number of bytes
/// before the image). The result is kept in `index_folder` for these `parameters`, as long as the files at `paths` do
/// not change.
#[pyfunction]
pub(crate) fn broken_images(
    py: Python<'_>,
    dataset: &Dataset,
    fields: Vec<(usize, PyRef<'_, ImageDecoder>, usize)>,
    paths: Vec<PathBuf>,
    parameters: String,
    index_folder: Option<PathBuf>,
    links: Links,
) -> PyResult<(Vec<usize>, Vec<String>)> {
    let encoded = |(field, decoder, bytes_before): (usize, PyRef<'_, ImageDecoder>, usize)| EncodedField {
        field,
        options: decoder.options,
        bytes_before,
    };
    let fields: Vec<_> = fields.into_iter().map(encoded).collect();
    let sources = ImageSources { paths, parameters, index_folder, links: image_links(&links) };
    let broken = detach(py, || sluicegate::internal::broken_images(&*dataset.0, &fields, &sources, handle_signals))?;
    Ok((broken.indices, broken.damages))
}

/// Fields of bytes, each with the field of the paths of their files; and the folder of relative paths.
type Links = (Vec<(usize, usize)>, Option<PathBuf>);

fn image_links((fields, folder): &Links) -> Vec<ImageLink> {
    fields.iter().map(|&(bytes, path)| ImageLink { bytes, path, folder: folder.clone() }).collect()
}

/// Returns the bytes of the image file at `path`, which may be relative to `folder`.
#[pyfunction]
pub(crate) fn linked_image<'py>(py: Python<'py>, path: &str, folder: Option<PathBuf>) -> PyResult<Bound<'py, PyBytes>> {
    let link = ImageLink { bytes: 0, path: 0, folder };
    let read = detach(py, || Ok(link.read(path.as_bytes())))?;
    read.map(|bytes| PyBytes::new(py, &bytes)).map_err(|reason| damaged_image(py, reason))
}

/// Handles signals. Called regularly by work that may take minutes, so that an interrupt takes effect soon.
pub(crate) fn handle_signals() -> sluicegate::Result<()> {
    Python::attach(|py| py.check_signals()).map_err(|error| sluicegate::Error::User(Box::new(error)))
}
