//! [`Resizable`]: the pixel types that the crate `fast_image_resize` resizes, first along rows and then along columns.

use std::cell::RefCell;

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::{F32, F32x2, F32x3, F32x4, U8, U8x2, U8x3, U8x4};
use fast_image_resize::{ImageView, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

use super::Reason;
use super::picture::Picture;
use super::scratch;
use crate::memory::Region;

/// The part of an image to resize.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// These pixels, as if there were no others.
    Whole(Region),
    /// From `left` to `left + width`, and so on, in fractional pixels; surrounding pixels contribute to the edges.
    Fraction { left: f64, top: f64, width: f64, height: f64 },
}

/// A pixel type that can be resized.
pub(super) trait Resizable: Copy + Default + Send + Sync + 'static {
    /// Returns `part` of `from` in `size` (width, height); both must have pixels.
    fn convolve(from: &Picture<Self>, part: Part, size: [usize; 2], algorithm: ResizeAlg) -> Result<Vec<Self>, Reason>;
}

thread_local! {
    /// Keeps intermediate buffers between the two directions.
    static RESIZER: RefCell<Resizer> = RefCell::new(Resizer::new());
}

/// Fills `into` with `part` of `from`: first resizes the rows to the new width, into `between`, then the columns to the
/// new height; intermediate bytes are whole numbers. This is torchvision's order; the crate's own order depends on the
/// sizes.
fn convolve<P: PixelTrait>(
    from: &TypedImageRef<'_, P>,
    part: Part,
    between: &mut TypedImage<'_, P>,
    into: &mut TypedImage<'_, P>,
    algorithm: ResizeAlg,
) -> Result<(), Reason> {
    let options = ResizeOptions::new().resize_alg(algorithm).use_alpha(false);
    let (region, [across, down]) = match part {
        Part::Whole(region) => (region, [options; 2]),
        Part::Fraction { left, top, width, height } => {
            let (rows, columns) = (f64::from(from.height()), f64::from(between.width()));
            (all_of(from), [options.crop(left, 0.0, width, rows), options.crop(0.0, top, columns, height)])
        }
    };
    pass(from, region, between, &across)?;
    let between = TypedImageRef::new(between.width(), between.height(), between.pixels());
    let between = between.map_err(|error| error.to_string())?;
    pass(&between, all_of(&between), into, &down)
}

/// Fills `into` with `region` of `from`. All calls use the same image types, because the crate's code is compiled for
/// each pair of types, which took a third of our compile time.
fn pass<P: PixelTrait>(
    from: &TypedImageRef<'_, P>,
    Region { left, top, width, height }: Region,
    into: &mut TypedImage<'_, P>,
    options: &ResizeOptions,
) -> Result<(), Reason> {
    let [left, top, width, height] = [left, top, width, height].map(narrow);
    let view = TypedCroppedImage::from_ref(from, left, top, width, height).map_err(|error| error.to_string())?;
    RESIZER.with_borrow_mut(|resizer| resizer.resize_typed(&view, into, options)).map_err(|error| error.to_string())
}

fn all_of<P: PixelTrait>(image: &TypedImageRef<'_, P>) -> Region {
    Region { left: 0, top: 0, width: image.width() as usize, height: image.height() as usize }
}

impl Part {
    /// Returns the number of rows of the intermediate image, for a source of `height` rows.
    fn rows(self, height: usize) -> usize {
        match self {
            Self::Whole(region) => region.height,
            Self::Fraction { .. } => height,
        }
    }
}

/// Converts a length to 32 bits: images with more pixels cannot be decoded.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl Resizable for u8 {
    fn convolve(from: &Picture<Self>, part: Part, size: [usize; 2], algorithm: ResizeAlg) -> Result<Vec<Self>, Reason> {
        match from.channels {
            1 => bytes::<U8>(from, part, size, algorithm),
            2 => bytes::<U8x2>(from, part, size, algorithm),
            3 => bytes::<U8x3>(from, part, size, algorithm),
            _ => bytes::<U8x4>(from, part, size, algorithm),
        }
    }
}

fn bytes<P: PixelTrait>(
    from: &Picture<u8>,
    part: Part,
    [width, height]: [usize; 2],
    algorithm: ResizeAlg,
) -> Result<Vec<u8>, Reason> {
    let words = |error: fast_image_resize::ImageBufferError| error.to_string();
    let rows = part.rows(from.height);
    let (mut pixels, mut wide) =
        (scratch::take(width * height * from.channels), scratch::take(width * rows * from.channels));
    let source =
        TypedImageRef::<P>::from_buffer(narrow(from.width), narrow(from.height), &from.pixels).map_err(words)?;
    let mut between = TypedImage::<P>::from_buffer(narrow(width), narrow(rows), &mut wide).map_err(words)?;
    let mut into = TypedImage::<P>::from_buffer(narrow(width), narrow(height), &mut pixels).map_err(words)?;
    convolve(&source, part, &mut between, &mut into, algorithm)?;
    scratch::give(wide);
    Ok(pixels)
}

impl Resizable for f32 {
    fn convolve(from: &Picture<Self>, part: Part, size: [usize; 2], algorithm: ResizeAlg) -> Result<Vec<Self>, Reason> {
        match from.channels {
            1 => floats::<F32, 1>(from, part, size, algorithm, |[value]| F32::new(value), |pixel| [pixel.0]),
            2 => floats::<F32x2, 2>(from, part, size, algorithm, F32x2::new, |pixel| pixel.0),
            3 => floats::<F32x3, 3>(from, part, size, algorithm, F32x3::new, |pixel| pixel.0),
            _ => floats::<F32x4, 4>(from, part, size, algorithm, F32x4::new, |pixel| pixel.0),
        }
    }
}

/// The crate's pixels are its own types instead of bytes, which requires two copies; float images are rarely resized.
fn floats<P: PixelTrait, const CHANNELS: usize>(
    from: &Picture<f32>,
    part: Part,
    [width, height]: [usize; 2],
    algorithm: ResizeAlg,
    pixel: impl Fn([f32; CHANNELS]) -> P,
    values: impl Fn(&P) -> [f32; CHANNELS],
) -> Result<Vec<f32>, Reason> {
    let pixels: Vec<P> = from.pixels.as_chunks::<CHANNELS>().0.iter().map(|&values| pixel(values)).collect();
    let source =
        TypedImageRef::new(narrow(from.width), narrow(from.height), &pixels).map_err(|error| error.to_string())?;
    let mut between = TypedImage::<P>::new(narrow(width), narrow(part.rows(from.height)));
    let mut into = TypedImage::<P>::new(narrow(width), narrow(height));
    convolve(&source, part, &mut between, &mut into, algorithm)?;
    Ok(into.pixels().iter().flat_map(values).collect())
}
