//! PNG, WebP, BMP, GIF, TIFF, and PNM, using the decoders of the crate `image`, all of them in Rust.

use std::fmt;
use std::io::Cursor;
use std::panic::catch_unwind;

use image::codecs::{
    bmp::BmpDecoder, gif::GifDecoder, png::PngDecoder, pnm::PnmDecoder, tiff::TiffDecoder, webp::WebPDecoder,
};
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, ImageResult, Limits};

use super::super::Reason;
use super::super::image::Image;
use super::decode_options::{DecodeOptions, check_size};
use super::gif::filled_around_frame;
use super::tiff::{TiffPixels, decode_inks, divided_by_alpha};
use crate::DType;

/// Maximum memory of a decoder per byte of the image, in addition to the image, but at least [`SPARE`]. Palettes and
/// rows stored in other layouts need some.
const SHARE: u64 = 4;
const SPARE: u64 = 64 << 20;

/// The formats that the crate `image` decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) enum RasterFormat {
    Png,
    WebP,
    Bmp,
    Gif,
    Tiff,
    Pnm,
}

impl fmt::Display for RasterFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Bmp => "BMP",
            Self::Gif => "GIF",
            Self::Tiff => "TIFF",
            Self::Pnm => "PNM",
        })
    }
}

type Decoder<'a> = Box<dyn ImageDecoder + 'a>;

/// Returns width and height in pixels.
pub(in crate::transform) fn size(encoded: &[u8], format: RasterFormat) -> Result<(usize, usize), Reason> {
    let decoder = open(encoded, format).map_err(|error| words(&error, format))?;
    let (width, height) = decoder.dimensions();
    Ok((width as usize, height as usize))
}

pub(in crate::transform) fn decode(
    encoded: &[u8],
    format: RasterFormat,
    options: &DecodeOptions,
) -> Result<Image, Reason> {
    // Parsers of six formats: a panic in one of them means a damaged image, like any other failure.
    let decoded = catch_unwind(|| match format {
        RasterFormat::Gif => {
            decode_unguarded(encoded, format, options).and_then(|image| filled_around_frame(encoded, image))
        }
        RasterFormat::Tiff => decode_tiff(encoded, options),
        format => decode_unguarded(encoded, format, options),
    });
    decoded.unwrap_or_else(|_| Err(format!("it can't be decoded as {format} (the decoder panicked)")))
}

fn decode_tiff(encoded: &[u8], options: &DecodeOptions) -> Result<Image, Reason> {
    match TiffPixels::of(encoded)? {
        TiffPixels::Plain => decode_unguarded(encoded, RasterFormat::Tiff, options),
        TiffPixels::Multiplied => decode_unguarded(encoded, RasterFormat::Tiff, options).map(divided_by_alpha),
        TiffPixels::Inks => decode_inks(encoded, options),
    }
}

fn decode_unguarded(encoded: &[u8], format: RasterFormat, options: &DecodeOptions) -> Result<Image, Reason> {
    let refuse = |error: ImageError| words(&error, format);
    let mut decoder = open(encoded, format).map_err(refuse)?;
    let (width, height) = decoder.dimensions();
    check_size(width as usize, height as usize, options)?;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(intermediate_bytes(decoder.total_bytes()));
    decoder.set_limits(limits).map_err(refuse)?;
    let image = DynamicImage::from_decoder(decoder).map_err(refuse)?;
    let (width, height) = (width as usize, height as usize);
    let (channels, dtype) = match image.color() {
        ColorType::L8 => (1, DType::UInt8),
        ColorType::La8 => (2, DType::UInt8),
        ColorType::Rgb8 => (3, DType::UInt8),
        ColorType::Rgba8 => (4, DType::UInt8),
        ColorType::L16 => (1, DType::UInt16),
        ColorType::La16 => (2, DType::UInt16),
        ColorType::Rgb16 => (3, DType::UInt16),
        ColorType::Rgba16 => (4, DType::UInt16),
        other => return Err(format!("its pixels are {other:?}, but only 8 or 16 bits are supported")),
    };
    Ok(Image::new(width, height, channels, dtype, image.into_bytes()))
}

/// Returns the most memory that the decoder of an image of `bytes` may take in addition to the image.
pub(super) fn intermediate_bytes(bytes: u64) -> u64 {
    bytes.saturating_mul(SHARE).saturating_add(SPARE)
}

/// Returns how to rotate the image, or None if its data do not specify it, or cannot be understood.
pub(in crate::transform) fn orientation(encoded: &[u8], format: RasterFormat) -> Option<Orientation> {
    open(encoded, format).and_then(|mut decoder| decoder.orientation()).ok()
}

fn open(encoded: &[u8], format: RasterFormat) -> ImageResult<Decoder<'_>> {
    let bytes = Cursor::new(encoded);
    Ok(match format {
        RasterFormat::Png => Box::new(PngDecoder::with_limits(bytes, png_limits(encoded))?),
        RasterFormat::WebP => Box::new(WebPDecoder::new(bytes)?),
        RasterFormat::Bmp => Box::new(BmpDecoder::new(bytes)?),
        RasterFormat::Gif => Box::new(GifDecoder::new(bytes)?),
        RasterFormat::Tiff => Box::new(TiffDecoder::new(bytes)?),
        RasterFormat::Pnm => Box::new(PnmDecoder::new(bytes)?),
    })
}

/// Returns limits for the parts of a PNG that are read before its size is checked: its chunks and a row. A compressed
/// color profile beyond the limits is ignored; without them, a file of 1 MB could request 1 GB.
fn png_limits(encoded: &[u8]) -> Limits {
    let width = encoded.get(16..20).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
    let row = u64::from(width).min(DecodeOptions::default().max_pixels) * 8;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(SPARE + encoded.len() as u64 + row);
    limits
}

fn words(error: &ImageError, format: RasterFormat) -> Reason {
    format!("it can't be decoded as {format} ({error})")
}
