//! TIFF: determines which files the decoder reads as Pillow does, and which conversion their pixels still need.

use std::io::Cursor;

use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use super::super::Reason;
use super::super::image::Image;
use super::decode_options::{DecodeOptions, check_size};
use super::image_mode::cmyk_to_rgb;
use super::raster::intermediate_bytes;
use crate::DType;

/// The meaning of a file's pixel values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TiffPixels {
    /// Gray, colors, or colors with alpha.
    Plain,
    /// Colors that were multiplied by their alpha.
    Multiplied,
    /// Cyan, magenta, yellow, and black.
    Inks,
}

/// Values of the tag ExtraSamples.
const UNSPECIFIED: u16 = 0;
const ASSOCIATED_ALPHA: u16 = 1;
const UNASSOCIATED_ALPHA: u16 = 2;

impl TiffPixels {
    /// Returns the meaning of the first page's pixel values.
    ///
    /// # Errors
    /// The reason, if the decoder would return different pixels than Pillow.
    pub(super) fn of(encoded: &[u8]) -> Result<Self, Reason> {
        let mut tags = Decoder::new(Cursor::new(encoded)).map_err(refused)?;
        let colors = tags.colortype().map_err(refused)?;
        let mut tag = |tag| tags.find_tag_unsigned::<u16>(tag).map_err(refused);
        if tag(Tag::FillOrder)?.is_some_and(|order| order != 1) {
            return Err(unsupported("reversed bit order, FillOrder 2"));
        }
        let is_planar = tag(Tag::PlanarConfiguration)?.is_some_and(|layout| layout != 1);
        let is_tiled = tag(Tag::TileWidth)?.is_some();
        let is_predicted = tag(Tag::Predictor)?.is_some_and(|predictor| predictor != 1);
        if is_planar && is_tiled {
            return Err(unsupported("tiles with one channel each"));
        }
        let extra: Vec<u16> = tags.find_tag_unsigned_vec(Tag::ExtraSamples).map_err(refused)?.unwrap_or_default();
        match (colors, &extra[..]) {
            (ColorType::CMYK(8), []) if !is_planar => Ok(Self::Inks),
            (ColorType::CMYK(8), _) => Err(unsupported("CMYK in separate planes, or with more channels")),
            (_, [] | [UNASSOCIATED_ALPHA]) => Ok(Self::Plain),
            (ColorType::RGBA(8), [ASSOCIATED_ALPHA]) => Ok(Self::Multiplied),
            (ColorType::RGB(8), [UNSPECIFIED]) if !is_tiled && !is_predicted => Ok(Self::Plain),
            _ => Err(unsupported(&format!("more channels than its color space has, ExtraSamples {extra:?}"))),
        }
    }
}

/// Decodes a file of inks to RGB.
pub(super) fn decode_inks(encoded: &[u8], options: &DecodeOptions) -> Result<Image, Reason> {
    let mut decoder = Decoder::new(Cursor::new(encoded)).map_err(refused)?;
    let (width, height) = decoder.dimensions().map_err(refused)?;
    let (width, height) = (width as usize, height as usize);
    check_size(width, height, options)?;
    let bytes = width * height * 4;
    let mut limits = Limits::default();
    limits.decoding_buffer_size = bytes;
    limits.intermediate_buffer_size = usize::try_from(intermediate_bytes(bytes as u64)).unwrap_or(usize::MAX);
    limits.ifd_value_size = limits.intermediate_buffer_size;
    let mut inks = match decoder.with_limits(limits).read_image().map_err(refused)? {
        DecodingResult::U8(inks) if inks.len() == bytes => inks,
        _ => return Err(unsupported("CMYK with other than 8 bits")),
    };
    inks.iter_mut().for_each(|ink| *ink = 255 - *ink);
    Ok(Image::new(width, height, 3, DType::UInt8, cmyk_to_rgb(&inks)))
}

/// Returns the colors before they were multiplied by their alpha, as Pillow computes them.
pub(super) fn divided_by_alpha(image: Image) -> Image {
    let (width, height, channels, dtype) = (image.width(), image.height(), image.channels(), image.dtype());
    let mut pixels = image.into_pixels();
    for pixel in pixels.chunks_exact_mut(4) {
        let alpha = u32::from(pixel[3]);
        for value in &mut pixel[..3] {
            *value = (u32::from(*value) * 255).checked_div(alpha).map_or(0, |divided| divided.min(255) as u8);
        }
    }
    Image::new(width, height, channels, dtype, pixels)
}

fn refused(error: TiffError) -> Reason {
    format!("it can't be decoded as TIFF ({error})")
}

fn unsupported(what: &str) -> Reason {
    format!("it can't be decoded as TIFF ({what}: not supported; save it as PNG)")
}
