//! [`ImagePipeline`]: from the bytes of an image file to an array of numbers.

use super::Reason;
use super::canvas::{Canvas, JpegScale};
use super::decode::DecodeOptions;
use super::encoded::Encoded;
use super::finished::{ChannelOrder, Finished};
use super::image_transform::{ImageShape, ImageTransform};
use super::operation::Operation;
use super::outcome::fixed_size;
use super::picture::AnyPicture;
use crate::memory::Region;
use crate::{DType, TorchGenerator};

/// From the bytes of an image file to an array of numbers: decoded, transformed and laid out, with no work for pixels that are
/// not needed. Threads may share it.
///
/// The header is read first, and what is random is drawn; a crop then says which part of a JPEG is decoded at all, and flips,
/// conversion and normalisation are done while the result is written.
///
/// # Example
/// ```
/// use sluicegate::{ImagePipeline, ImageTransform, TorchGenerator};
/// let mirror = ImagePipeline::new(vec![ImageTransform::RandomHorizontalFlip { p: 1.0 }]);
/// let array = mirror.run(b"P5 2 1 255 \x07\x09", Some(&mut TorchGenerator::new(0))).unwrap();
/// assert_eq!(array.shape(), [3, 1, 2]);
/// assert_eq!(array.to_bytes().unwrap(), [9, 7, 9, 7, 9, 7]);
/// ```
#[derive(Debug, Clone)]
pub struct ImagePipeline {
    decode: DecodeOptions,
    transforms: Vec<ImageTransform>,
    scale: JpegScale,
    order: ChannelOrder,
}

/// The shape and the data type of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageForm {
    /// Three numbers: channels, height, width, or as the channels lie.
    pub shape: [usize; 3],
    /// The data type of a value.
    pub dtype: DType,
}

/// What a pipeline makes of an image: the last step is done when it is written.
pub struct TransformedImage {
    finished: Finished,
    order: ChannelOrder,
    dtype: DType,
}

impl ImagePipeline {
    /// Decodes with the default options, does `transforms` one after the other, and puts channels first.
    #[must_use]
    pub fn new(transforms: Vec<ImageTransform>) -> Self {
        Self {
            decode: DecodeOptions::default(),
            transforms,
            scale: JpegScale::default(),
            order: ChannelOrder::default(),
        }
    }

    /// The same with other options of the decoder.
    #[must_use]
    pub fn with_decode(self, decode: DecodeOptions) -> Self {
        Self { decode, ..self }
    }

    /// The same, decoding JPEG at this scale.
    #[must_use]
    pub fn with_scale(self, scale: JpegScale) -> Self {
        Self { scale, ..self }
    }

    /// The same with the channels in this order.
    #[must_use]
    pub fn with_order(self, order: ChannelOrder) -> Self {
        Self { order, ..self }
    }

    /// Whether something is drawn.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.transforms.iter().any(ImageTransform::is_random)
    }

    /// The form that every image gets, whatever it was; nothing where it depends on the image.
    #[must_use]
    pub fn form(&self) -> Option<ImageForm> {
        let [height, width] = fixed_size(&self.transforms)?;
        let before = (self.decode.mode.channels()?, DType::UInt8);
        let mut transforms = self.transforms.iter();
        let (channels, dtype) =
            transforms.try_fold(before, |(channels, dtype), each| each.output(channels, dtype)).ok()?;
        let shape = match self.order {
            ChannelOrder::First => [channels, height, width],
            ChannelOrder::Last => [height, width, channels],
        };
        Some(ImageForm { shape, dtype })
    }

    /// The image that `encoded` is, transformed; what is random is drawn from `generator`, which is not needed where
    /// [nothing](Self::is_random) is.
    ///
    /// # Errors
    /// In words, why it is no image, or can't be transformed: who knows the file makes an error of it.
    pub fn run(&self, encoded: &[u8], generator: Option<&mut TorchGenerator>) -> Result<TransformedImage, Reason> {
        let mut unused;
        let generator = match generator {
            Some(generator) => generator,
            None if self.is_random() => {
                return Err("its transforms are random, and there is no generator to draw from".into());
            }
            None => {
                unused = TorchGenerator::new(0);
                &mut unused
            }
        };
        let encoded = Encoded::open(encoded, &self.decode)?;
        let mut shape = ImageShape { height: encoded.height, width: encoded.width, channels: 0, dtype: DType::UInt8 };
        let mut operations = Vec::new();
        match self.decode.mode.channels() {
            Some(channels) => {
                shape.channels = channels;
                let dtype = self.draw(&mut shape, generator, &mut operations)?;
                self.finish(Canvas::of_encoded(encoded, self.scale), &operations, dtype)
            }
            // How many channels there are is known when it is decoded.
            None => {
                let whole = Region { left: 0, top: 0, width: encoded.width, height: encoded.height };
                let (picture, _) = encoded.decode(whole)?;
                shape.channels = picture.channels;
                let dtype = self.draw(&mut shape, generator, &mut operations)?;
                self.finish(Canvas::of_picture(AnyPicture::Bytes(picture)), &operations, dtype)
            }
        }
    }

    /// Draws what is to be done to an image of that shape; the data type that it will have.
    fn draw(
        &self,
        shape: &mut ImageShape,
        generator: &mut TorchGenerator,
        into: &mut Vec<Operation>,
    ) -> Result<DType, Reason> {
        self.transforms.iter().try_for_each(|transform| transform.draw(shape, generator, into))?;
        let dtype = shape.dtype;
        for operation in into {
            // Floats are worked on as float32; what other floats are asked for, they become when they are written.
            if let Operation::ToDtype { dtype: DType::Float16 | DType::BFloat16 | DType::Float64, values } = *operation
            {
                *operation = Operation::ToDtype { dtype: DType::Float32, values };
            }
        }
        Ok(dtype)
    }

    fn finish<'a>(
        &self,
        mut canvas: Canvas<'a>,
        operations: &'a [Operation],
        dtype: DType,
    ) -> Result<TransformedImage, Reason> {
        operations.iter().try_for_each(|operation| canvas.apply(operation))?;
        Ok(TransformedImage { finished: canvas.finish()?, order: self.order, dtype })
    }
}

impl TransformedImage {
    /// Channels, height, width; or as the channels lie.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        let [channels, height, width] = self.finished.shape();
        match self.order {
            ChannelOrder::First => [channels, height, width],
            ChannelOrder::Last => [height, width, channels],
        }
    }

    /// The data type of a value.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.dtype.bytes()
    }

    /// Writes the values to `into`, in the machine's byte order.
    ///
    /// # Errors
    /// In words: there is more or less room than the image needs.
    pub fn write(self, into: &mut [u8]) -> Result<(), Reason> {
        self.finished.write(self.dtype, self.order, into)
    }

    /// The values, in the machine's byte order.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn to_bytes(self) -> Result<Vec<u8>, Reason> {
        let mut bytes = vec![0; self.bytes()];
        self.write(&mut bytes)?;
        Ok(bytes)
    }
}
