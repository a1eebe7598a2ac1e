//! [`FakeImages`]: images of random pixels, made as they are read.

use super::room_filling::fill_rooms;
use super::sample_generator::{Origin, generator_of};
use super::{Dataset, Drawing, ReadMany};
use crate::transform::{PixelPipeline, normal};
use crate::{BatchWriter, DType, Error, Field, Result, SampleWriter, Schema, TorchGenerator};

/// The samples of torchvision's `FakeData`: normal deviates, times 255, as bytes, and a label, both drawn from torch's
/// generator with a seed of their own for each sample. The images are transformed as those of
/// [`PixelImages`](super::PixelImages) are.
///
/// # Example
/// ```
/// use sluicegate::internal::{FakeImages, PixelPipeline};
/// use sluicegate::{ChannelOrder, DType, Dataset, Field};
/// let pipeline = PixelPipeline::new(Vec::new(), [4, 6], 3, ChannelOrder::First).unwrap();
/// let dataset = FakeImages::new(["image", "label"], 1000, 0, 10, pipeline);
/// assert_eq!(dataset.schema().fields()[1], Field::new("label", DType::Int64, []));
/// ```
pub struct FakeImages {
    len: usize,
    /// The seed of the first sample.
    seed: u64,
    labels: u64,
    pipeline: PixelPipeline,
    schema: Schema,
}

impl FakeImages {
    /// Returns `len` samples with seeds from `seed` on, labels below `labels`, and fields with these `names`. The
    /// `pipeline` gets images with their channels first.
    ///
    /// # Panics
    /// When a sample is read, if `labels` is 0.
    #[must_use]
    pub fn new(names: [&str; 2], len: usize, seed: u64, labels: u64, pipeline: PixelPipeline) -> Self {
        let form = pipeline.form();
        let schema =
            Schema::new([Field::new(names[0], form.dtype, form.shape), Field::new(names[1], DType::Int64, [])]);
        Self { len, seed, labels, pipeline, schema }
    }

    fn sample(&self, index: usize, origin: Origin<'_>, rooms: &mut [&mut [u8]]) -> Result<()> {
        if index >= self.len {
            return Err(Error::IndexOutOfRange { index, len: self.len });
        }
        let mut own = TorchGenerator::new(self.seed.wrapping_add(index as u64));
        let deviates = normal(self.pipeline.bytes(), &mut own);
        // Torch converts by way of an integer, so that values outside the range of a byte wrap.
        let pixels: Vec<u8> = deviates.iter().map(|deviate| (deviate * 255.0) as i32 as u8).collect();
        rooms[1].copy_from_slice(&(own.random_below(self.labels) as i64).to_ne_bytes());
        let mut generator = match self.pipeline.is_random() {
            true => Some(generator_of(origin, self.pipeline.draws_from_python())?),
            false => None,
        };
        let outcome = self.pipeline.run(&pixels, generator.as_mut(), rooms[0]);
        outcome.map_err(|reason| self.refuse(index, reason))
    }

    fn refuse(&self, index: usize, reason: String) -> Error {
        Error::Image { index, field: self.schema.fields()[0].name().to_owned(), reason }
    }
}

impl Dataset for FakeImages {
    fn len(&self) -> usize {
        self.len
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

    fn is_random(&self) -> bool {
        self.pipeline.is_random()
    }

    fn counts_from_end(&self) -> bool {
        false // A negative index is a seed, too.
    }

    fn as_drawing(&self) -> Option<&dyn Drawing> {
        self.is_random().then_some(self as &dyn Drawing)
    }
}

impl ReadMany for FakeImages {
    fn read_many(&self, indices: &[usize], into: &mut BatchWriter<'_>) -> Result<()> {
        let origins: Vec<_> = (0..indices.len()).map(|row| (into.place(row).cloned(), into.key(row))).collect();
        let fill = |(row, mut rooms): (usize, Vec<&mut [u8]>)| {
            let (place, key) = &origins[row];
            self.sample(indices[row], (place.as_ref(), *key), &mut rooms)
        };
        fill_rooms(into.rooms(&[0, 1]), fill).map(drop)
    }
}

impl Drawing for FakeImages {
    fn draws_from_python(&self) -> bool {
        self.pipeline.draws_from_python()
    }

    fn advance(&self, index: usize, generator: &mut TorchGenerator) -> Result<()> {
        self.pipeline.advance(generator).map_err(|reason| self.refuse(index, reason))
    }
}
