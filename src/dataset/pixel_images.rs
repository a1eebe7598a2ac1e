//! [`PixelImages`]: images whose pixels are stored, transformed as they are read.

use std::cell::RefCell;

use super::encoded_batch::EncodedBatch;
use super::pixels::Pixels;
use super::sample_generator::generator_of;
use super::{Blocks, Dataset, Drawing, InMemory, ReadMany};
use crate::transform::PixelPipeline;
use crate::{BatchWriter, Error, Field, Result, SampleWriter, Schema, TorchGenerator, watch};

/// Byte images, all of the same shape, transformed into their rows of the batch as they are read, and other fields,
/// unchanged.
///
/// Random transforms draw from the sample's generator position ([`SampleWriter::place`]), or, if samples have a key
/// ([`SampleWriter::key`]), from the generator that a Python dataset would draw from.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use sluicegate::internal::{Array, PixelImages, PixelPipeline, Pixels, Segment};
/// use sluicegate::{ChannelOrder, DType, Dataset, Field, ImageTransform, InMemory};
/// let pixels = Arc::new(Segment::from_vec(vec![1_u8, 2, 3, 4, 5, 6]));
/// let images = Pixels::InMemory(Array::contiguous(pixels, 0, 1, &[2, 1, 3]).unwrap());
/// let middle = ImageTransform::CenterCrop { size: [1, 1] };
/// let pipeline = PixelPipeline::new(vec![middle], [1, 3], 1, ChannelOrder::Last).unwrap();
/// let labels = InMemory::from_vec("label", vec![7_i64, 8], []).unwrap();
/// let dataset = PixelImages::new("image", images, pipeline, labels).unwrap();
/// assert_eq!(dataset.schema().fields()[0], Field::new("image", DType::UInt8, [1, 1, 1]));
/// ```
pub struct PixelImages {
    images: Pixels,
    pipeline: PixelPipeline,
    others: InMemory,
    schema: Schema,
}

thread_local! {
    /// Buffer for pixels.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are freed instead of reused.
const LARGEST_ROOM: usize = 16 << 20;

impl PixelImages {
    /// The `images` transformed by `pipeline`, in a field called `name`; then the fields of `others`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the size of an image differs from that of the images of `pipeline`;
    /// [`Error::LengthMismatch`] if the number of images differs from the number of samples of `others`.
    pub fn new(name: &str, images: Pixels, pipeline: PixelPipeline, others: InMemory) -> Result<Self> {
        let bytes = images.bytes_per_image()?;
        if bytes != pipeline.bytes() {
            return Err(Error::invalid("images", format!("a row has {bytes} bytes, an image {}", pipeline.bytes())));
        }
        if images.len() != others.len() {
            return Err(Error::LengthMismatch {
                first: name.to_owned(),
                first_len: images.len(),
                other: "others".into(),
                other_len: others.len(),
            });
        }
        let form = pipeline.form();
        let image = Field::new(name, form.dtype, form.shape);
        let schema =
            Schema::new([image].into_iter().chain(others.schema().fields().iter().cloned()).collect::<Vec<_>>());
        Ok(Self { images, pipeline, others, schema })
    }

    fn image(&self, (index, row): (usize, usize), pixels: &[u8], into: &mut BatchWriter<'_>) -> Result<()> {
        let mut generator = match self.pipeline.is_random() {
            true => Some(generator_of((into.place(row), into.key(row)), self.pipeline.draws_from_python())?),
            false => None,
        };
        let outcome = self.pipeline.run(pixels, generator.as_mut(), into.sample(row).field(0));
        outcome.map_err(|reason| self.refuse(index, reason))
    }

    fn refuse(&self, index: usize, reason: String) -> Error {
        Error::Image { index, field: self.schema.fields()[0].name().to_owned(), reason }
    }
}

impl Dataset for PixelImages {
    fn len(&self) -> usize {
        self.images.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.read_many(&[index], &mut into.as_batch())
    }

    fn as_read_many(&self) -> Option<&dyn ReadMany> {
        Some(self)
    }

    fn as_blocks(&self) -> Option<&dyn Blocks> {
        self.images.as_blocks()
    }

    fn is_random(&self) -> bool {
        self.pipeline.is_random()
    }

    fn as_drawing(&self) -> Option<&dyn Drawing> {
        self.is_random().then_some(self as &dyn Drawing)
    }
}

impl ReadMany for PixelImages {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let mut room = ROOM.take();
        let mut rows = indices.iter().copied().enumerate();
        let outcome = match &self.images {
            Pixels::InMemory(array) => {
                room.resize(self.pipeline.bytes(), 0);
                rows.try_for_each(|(row, index)| {
                    watch::advance(0)?;
                    array.copy_row(index, &mut room)?;
                    self.image((index, row), &room, into)
                })
            }
            Pixels::Stored(dataset) => {
                let stored = EncodedBatch::read(&**dataset, indices, room)?;
                let outcome = rows.try_for_each(|(row, index)| {
                    watch::advance(0)?;
                    self.image((index, row), stored.field(row, 0), into)
                });
                room = stored.into_room();
                outcome
            }
        };
        if room.capacity() <= LARGEST_ROOM {
            ROOM.set(room);
        }
        outcome?;
        let fields = self.schema.fields().len();
        self.others.read_many(indices, &mut into.fields_mut(1..fields))
    }
}

impl Drawing for PixelImages {
    fn draws_from_python(&self) -> bool {
        self.pipeline.draws_from_python()
    }

    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        self.pipeline.advance(generator).map_err(|reason| self.refuse(index, reason))
    }
}
