//! [`ImagePipeline`]: converts the bytes of an image file to an array of numbers.

use std::sync::Arc;

use super::canvas::{Canvas, JpegScale};
use super::decoding::decode_options::{DecodeOptions, Truncated};
use super::decoding::encoded::Encoded;
use super::decoding::plain_file::PlainFile;
use super::drawing::{draw_all, draw_with_boxes};
use super::finished::ChannelOrder;
use super::image::Image;
use super::image_cache::ImageCache;
use super::image_shape::ImageShape;
use super::image_transform::ImageTransform;
use super::moves::Moves;
use super::operation::Operation;
use super::outcome::fixed_size;
use super::picture::{AnyPicture, Picture};
use super::transformed_image::TransformedImage;
use super::{Boxes, Reason};
use crate::memory::Region;
use crate::{DType, TorchGenerator};

/// Converts the bytes of an image file to an array of numbers: decoded, transformed, and laid out, without work on
/// pixels that are not needed. Threads may share it.
///
/// The header is read first, and random values are drawn. A crop then determines which part of a JPEG is decoded at
/// all, and flips, conversion, and normalization are done while the result is written.
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
    cache: Option<Arc<ImageCache>>,
}

/// The shape and the data type of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageForm {
    /// Three numbers: channels, height, width, or in the order of the channel layout.
    pub shape: [usize; 3],
    /// The data type of a value.
    pub dtype: DType,
}

impl ImagePipeline {
    /// Returns a pipeline that decodes with the default options, applies `transforms` in order, and puts channels
    /// first.
    #[must_use]
    pub fn new(transforms: Vec<ImageTransform>) -> Self {
        let (decode, scale, order) = (DecodeOptions::default(), JpegScale::default(), ChannelOrder::default());
        Self { decode, transforms, scale, order, cache: None }
    }

    /// Sets other decoder options.
    #[must_use]
    pub fn with_decode(self, decode: DecodeOptions) -> Self {
        Self { decode, ..self }
    }

    /// Decodes JPEG at this scale.
    #[doc(hidden)]
    #[must_use]
    pub fn with_scale(self, scale: JpegScale) -> Self {
        Self { scale, ..self }
    }

    /// Decodes JPEG exactly as Pillow does: a file for which the decoder reports any problem is rejected.
    #[doc(hidden)]
    #[must_use]
    pub fn as_pillow(self) -> Self {
        let decode = DecodeOptions { truncated: Truncated::RefuseAny, ..self.decode };
        Self { decode, scale: JpegScale::Full, ..self }
    }

    /// Sets the channel order.
    #[must_use]
    pub fn with_order(self, order: ChannelOrder) -> Self {
        Self { order, ..self }
    }

    /// Caches images in `cache` by their numbers ([`run_number`](Self::run_number)): after the transforms that precede
    /// the first random one, and before their values become floats.
    #[doc(hidden)]
    #[must_use]
    pub fn with_cache(self, cache: Arc<ImageCache>) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// True if any transform is random.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.transforms.iter().any(ImageTransform::is_random)
    }

    /// True if any transform may draw from Python's generator.
    pub(crate) fn draws_from_python(&self) -> bool {
        self.transforms.iter().any(ImageTransform::draws_from_python)
    }

    /// Returns the form that every image gets, or None if it depends on the image.
    #[doc(hidden)]
    #[must_use]
    pub fn form(&self) -> Option<ImageForm> {
        let size = fixed_size(&self.transforms)?;
        let before = (self.decode.mode.channels()?, DType::UInt8);
        let mut transforms = self.transforms.iter();
        let (channels, dtype) =
            transforms.try_fold(before, |(channels, dtype), each| each.output(channels, dtype)).ok()?;
        Some(ImageForm { shape: self.order.shape(channels, size), dtype })
    }

    /// Returns the form of masks that move with the images of the pipeline `image`, or None if it depends on the image.
    #[doc(hidden)]
    #[must_use]
    pub fn mask_form(&self, image: &Self) -> Option<ImageForm> {
        let size = fixed_size(&image.transforms)?;
        let shape = self.order.shape(self.decode.mode.channels()?, size);
        self.transforms.is_empty().then_some(ImageForm { shape, dtype: DType::UInt8 })
    }

    /// Decodes and transforms `encoded`; random values are drawn from `generator`, which is not needed if
    /// [nothing](Self::is_random) is random.
    ///
    /// # Errors
    /// The reason why `encoded` is not an image or cannot be transformed; a caller that knows the file turns it into an
    /// error.
    pub fn run(&self, encoded: &[u8], generator: Option<&mut TorchGenerator>) -> Result<TransformedImage, Reason> {
        self.run_with_boxes(encoded, None, generator)
    }

    fn run_with_boxes(
        &self,
        encoded: &[u8],
        boxes: Option<Boxes>,
        generator: Option<&mut TorchGenerator>,
    ) -> Result<TransformedImage, Reason> {
        self.with_generator(generator, |generator| {
            let (mut canvas, shape) = self.open(encoded)?;
            let moves = Moves::new(shape.height, shape.width);
            self.finish(&mut canvas, (shape, moves, boxes), &self.transforms, generator)
        })
    }

    /// Advances `generator` as [`run`](Self::run) does for an image of this height and width.
    pub(crate) fn advance(&self, [height, width]: [usize; 2], generator: &mut TorchGenerator) -> Result<(), Reason> {
        let drawing = self.transforms.iter().rposition(ImageTransform::is_random).map_or(0, |last| last + 1);
        let mut shape =
            ImageShape { height, width, channels: self.decode.mode.channels().unwrap_or(3), dtype: DType::UInt8 };
        draw_all(&self.transforms[..drawing], &mut shape, generator, &mut Vec::new())
    }

    /// Like `run`, for a file that `plain` describes; a JPEG is decoded whole if Pillow might reject any part of it.
    #[doc(hidden)]
    pub fn run_plain(
        &self,
        encoded: &[u8],
        plain: &PlainFile,
        generator: Option<&mut TorchGenerator>,
    ) -> Result<TransformedImage, Reason> {
        let image = match plain {
            PlainFile::Jpeg(jpeg) if jpeg.is_divisible(encoded) => return self.run(encoded, generator),
            PlainFile::Jpeg(_) => Image::decode(encoded, &self.decode)?,
            PlainFile::Png(png) => {
                png.decode(encoded, self.decode.mode).ok_or("the file is one that Pillow may decode differently")?
            }
        };
        self.run_image(image, generator)
    }

    /// Like `run`, for a decoded image of bytes.
    pub(crate) fn run_image(
        &self,
        image: Image,
        generator: Option<&mut TorchGenerator>,
    ) -> Result<TransformedImage, Reason> {
        let [height, width, channels] = image.shape();
        match image.dtype() {
            DType::UInt8 => self.run_picture(Picture::new(width, height, channels, image.into_pixels()), generator),
            dtype => Err(format!("its values are {dtype}, but uint8 is expected")),
        }
    }

    /// Like `run`, for a picture.
    pub(super) fn run_picture(
        &self,
        picture: Picture<u8>,
        generator: Option<&mut TorchGenerator>,
    ) -> Result<TransformedImage, Reason> {
        let (height, width) = (picture.height, picture.width);
        let shape = ImageShape { height, width, channels: picture.channels, dtype: DType::UInt8 };
        let mut canvas = Canvas::of_picture(AnyPicture::Bytes(picture));
        let moves = Moves::new(height, width);
        self.with_generator(generator, |generator| {
            self.finish(&mut canvas, (shape, moves, None), &self.transforms, generator)
        })
    }

    /// Like `run`, for image `number`, which is taken from the [cache](Self::with_cache), or stored there if it has
    /// room; `encoded` is called only if the image is missing. With a cache, a JPEG is never decoded in part, so that
    /// images are the same whether they were cached or not.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_number<'a>(
        &self,
        number: usize,
        encoded: impl FnOnce() -> &'a [u8],
        generator: Option<&mut TorchGenerator>,
    ) -> Result<TransformedImage, Reason> {
        self.run_number_with_boxes(number, encoded, None, generator)
    }

    /// Like `run_number`, for an image with `boxes`, which `RandomIoUCrop` uses. The boxes are those before any
    /// transform; their height and width are replaced with those of the file.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    #[doc(hidden)]
    pub fn run_number_with_boxes<'a>(
        &self,
        number: usize,
        encoded: impl FnOnce() -> &'a [u8],
        boxes: Option<Boxes>,
        generator: Option<&mut TorchGenerator>,
    ) -> Result<TransformedImage, Reason> {
        let Some(cache) = &self.cache else { return self.run_with_boxes(encoded(), boxes, generator) };
        if let Some((picture, size)) = cache.get(number) {
            return self.run_rest(picture, size, boxes, generator);
        }
        let (mut canvas, shape) = self.open(encoded())?;
        let size = [shape.height, shape.width];
        canvas.apply_all(self.first_operations(shape)?)?;
        match canvas.picture()? {
            AnyPicture::Bytes(picture) => {
                cache.keep(number, &picture, size);
                self.run_rest(picture, size, boxes, generator)
            }
            AnyPicture::Floats(_) => Err("float images can't be cached".into()),
        }
    }

    /// True if image `number` is in the cache, so that its bytes are not needed.
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.has(number))
    }

    /// Returns the transforms that are applied before an image is cached.
    fn cached_transforms(&self) -> &[ImageTransform] {
        let stays =
            |each: &ImageTransform| !each.is_random() && matches!(each.output(3, DType::UInt8), Ok((_, DType::UInt8)));
        let end = self.transforms.iter().position(|each| !stays(each)).unwrap_or(self.transforms.len());
        &self.transforms[..end]
    }

    /// Returns the operations of those transforms for an image of this shape.
    fn first_operations(&self, mut shape: ImageShape) -> Result<Vec<Operation>, Reason> {
        let mut operations = Vec::new();
        // None of these transforms is random.
        let mut generator = TorchGenerator::new(0);
        draw_all(self.cached_transforms(), &mut shape, &mut generator, &mut operations)?;
        Ok(operations)
    }

    /// Applies the remaining transforms to an image that had this height and width before the first ones.
    fn run_rest(
        &self,
        picture: Picture<u8>,
        [height, width]: [usize; 2],
        boxes: Option<Boxes>,
        generator: Option<&mut TorchGenerator>,
    ) -> Result<TransformedImage, Reason> {
        let rest = &self.transforms[self.cached_transforms().len()..];
        let shape = ImageShape { height, width, channels: picture.channels, dtype: DType::UInt8 };
        let mut moves = Moves::new(height, width);
        moves.extend(&self.first_operations(shape)?);
        let shape = ImageShape { height: picture.height, width: picture.width, ..shape };
        let mut canvas = Canvas::of_picture(AnyPicture::Bytes(picture));
        self.with_generator(generator, |generator| self.finish(&mut canvas, (shape, moves, boxes), rest, generator))
    }

    /// Decodes the mask `encoded`, and moves it as its image was. The pipeline of a mask has no transforms of its own.
    ///
    /// # Errors
    /// The reason why it is not a mask of that image, or cannot be moved this way.
    #[doc(hidden)]
    pub fn run_mask(&self, encoded: &[u8], moves: &Moves) -> Result<TransformedImage, Reason> {
        if !self.transforms.is_empty() {
            return Err("a mask follows the transforms of its image, and can't have its own".into());
        }
        let (mut canvas, _) = self.open(encoded)?;
        let AnyPicture::Bytes(mask) = canvas.picture()? else { return Err("float masks are not supported".into()) };
        let mut canvas = Canvas::of_picture(AnyPicture::Bytes(moves.mask(mask)?));
        let moves = Moves::default();
        Ok(TransformedImage { finished: canvas.finish()?, moves, order: self.order, dtype: DType::UInt8 })
    }

    /// Returns the transforms in order.
    pub(super) fn transforms(&self) -> &[ImageTransform] {
        &self.transforms
    }

    /// Runs `run` with `generator`, which may be missing if nothing is random.
    pub(super) fn with_generator<T>(
        &self,
        generator: Option<&mut TorchGenerator>,
        run: impl FnOnce(&mut TorchGenerator) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        match generator {
            Some(generator) => run(generator),
            None if self.is_random() => Err("the transforms are random, but there is no generator to draw from".into()),
            None => run(&mut TorchGenerator::new(0)),
        }
    }

    /// Reads the header, and returns the image and its shape.
    fn open<'a>(&'a self, encoded: &'a [u8]) -> Result<(Canvas<'a>, ImageShape), Reason> {
        let encoded = Encoded::open(encoded, &self.decode)?;
        let (height, width) = (encoded.height, encoded.width);
        let shape = |channels| ImageShape { height, width, channels, dtype: DType::UInt8 };
        match self.decode.mode.channels() {
            Some(channels) => Ok((Canvas::of_encoded(encoded, self.scale), shape(channels))),
            // The number of channels is known only after decoding.
            None => {
                let (picture, _) = encoded.decode(Region { left: 0, top: 0, width, height })?;
                let shape = shape(picture.channels);
                Ok((Canvas::of_picture(AnyPicture::Bytes(picture)), shape))
            }
        }
    }

    /// Draws the operations of `transforms` for an image of that shape, and applies them. `moves` were already applied
    /// to the image, but not to `boxes`.
    fn finish(
        &self,
        canvas: &mut Canvas<'_>,
        (mut shape, mut moves, boxes): (ImageShape, Moves, Option<Boxes>),
        transforms: &[ImageTransform],
        generator: &mut TorchGenerator,
    ) -> Result<TransformedImage, Reason> {
        let mut operations = Vec::new();
        let boxes = boxes.map(|boxes| moves.moved(boxes)).transpose()?;
        draw_with_boxes(transforms, (&mut shape, boxes), generator, &mut operations)?;
        for operation in &mut operations {
            // Float operations use float32; other float types are converted when they are written.
            if let Operation::ToDtype { dtype: DType::Float16 | DType::BFloat16 | DType::Float64, values } = *operation
            {
                *operation = Operation::ToDtype { dtype: DType::Float32, values };
            }
        }
        moves.extend(&operations);
        canvas.apply_all(operations)?;
        Ok(TransformedImage { finished: canvas.finish()?, moves, order: self.order, dtype: shape.dtype })
    }
}
