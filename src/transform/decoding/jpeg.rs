//! JPEG, using libjpeg-turbo: the same pixels as Pillow and torchvision, bit for bit.

use super::super::Reason;
use super::super::image::Image;
use super::super::picture::Picture;
use super::super::scratch;
use super::decode_options::{DecodeOptions, Truncated, check_size};
use super::image_mode::{ImageMode, cmyk_to_rgb};
use crate::DType;
use crate::memory::{JpegColors, JpegDecoder, JpegFault, JpegHeader, Region};

/// Number of pixels to which a block of 8 is decoded by default: all of them.
pub(in crate::transform) const EIGHTHS: usize = 8;

/// The decoder's message for an image that ends too early; libjpeg has no error numbers in this interface.
const ENDS_EARLY: &str = "Premature end of JPEG file";

/// Its messages for files that cameras and programs wrote this way without loss: bytes that belong to no marker, and
/// headers with wrong values that are not used.
const HARMLESS: [&str; 4] = [
    "extraneous bytes before marker",
    "Invalid SOS parameters for sequential JPEG",
    "Unknown Adobe color transform code",
    "unknown JFIF revision number",
];

/// Returns width and height in pixels.
pub(in crate::transform) fn size(encoded: &[u8]) -> Result<(usize, usize), Reason> {
    let header = JpegDecoder::new().and_then(|mut decoder| decoder.header(encoded)).map_err(words)?;
    Ok((header.width, header.height))
}

/// Returns the header of an image that may be decoded.
pub(in crate::transform) fn header(encoded: &[u8], options: &DecodeOptions) -> Result<JpegHeader, Reason> {
    let header = JpegDecoder::new().and_then(|mut decoder| decoder.header(encoded)).map_err(words)?;
    check_size(header.width, header.height, options)?;
    Ok(header)
}

pub(in crate::transform) fn decode(encoded: &[u8], options: &DecodeOptions) -> Result<Image, Reason> {
    let header = header(encoded, options)?;
    let whole = Region { left: 0, top: 0, width: header.width, height: header.height };
    let pixels = decode_region(encoded, &header, options, EIGHTHS, whole)?;
    Ok(Image::new(pixels.width, pixels.height, pixels.channels, DType::UInt8, pixels.pixels))
}

/// Decodes at least `region` of the image, with each block of 8 pixels decoded to `eighths` pixels; returns also the
/// position of `region` in the decoded part. The region is in scaled pixels. Its pixels equal those of the whole image.
pub(in crate::transform) fn decode_part(
    encoded: &[u8],
    header: &JpegHeader,
    options: &DecodeOptions,
    eighths: usize,
    region: Region,
) -> Result<(Picture<u8>, Region), Reason> {
    let [width, height] = [header.width, header.height].map(|length| JpegDecoder::scaled(length, eighths));
    let whole = Region { left: 0, top: 0, width, height };
    // A truncated file is decoded whole even if it ends after the region, because success must not depend on random
    // crops. Other damage in parts that are not decoded cannot be detected.
    let is_cut = options.truncated != Truncated::Fill && !has_end(encoded);
    let decoded = match header.unit_width * eighths / EIGHTHS {
        0 => whole,
        _ if is_cut => whole,
        unit => around(region, unit, whole),
    };
    let pixels = decode_region(encoded, header, options, eighths, decoded)?;
    let (left, top) = (region.left - decoded.left, region.top - decoded.top);
    Ok((pixels, Region { left, top, ..region }))
}

/// Returns `region` with a spare unit on each side: the library smooths colors across block edges, and treats the edge
/// of a region like that of the image.
fn around(region: Region, unit: usize, whole: Region) -> Region {
    let left = (region.left / unit).saturating_sub(1) * unit;
    let top = region.top.saturating_sub(unit);
    let right = (region.left + region.width + unit).min(whole.width);
    let bottom = (region.top + region.height + unit).min(whole.height);
    Region { left, top, width: right - left, height: bottom - top }
}

fn decode_region(
    encoded: &[u8],
    header: &JpegHeader,
    options: &DecodeOptions,
    eighths: usize,
    region: Region,
) -> Result<Picture<u8>, Reason> {
    // One per image: a decoder keeps the tables of its last image, and would use them for a file that lacks some.
    let decoder = JpegDecoder::new().map_err(words)?;
    let colors = match (header.colors, options.mode) {
        (JpegColors::Cmyk, _) => JpegColors::Cmyk,
        (JpegColors::Gray, ImageMode::Unchanged | ImageMode::Gray | ImageMode::Palette) => JpegColors::Gray,
        _ => JpegColors::Rgb,
    };
    let channels = match colors {
        JpegColors::Gray => 1,
        JpegColors::Rgb => 3,
        JpegColors::Cmyk => 4,
    };
    let Region { width, height, .. } = region;
    let mut pixels = scratch::take(width * height * channels);
    if options.truncated == Truncated::Fill {
        // Parts that the decoder does not reach must not show another image's pixels.
        pixels.fill(0);
    }
    match decoder.decode(encoded, header, eighths, region, colors, &mut pixels) {
        Err(fault) if !is_tolerated(&fault, encoded, options) => return Err(words(fault)),
        _ => {}
    }
    Ok(match colors {
        JpegColors::Cmyk => Picture::new(width, height, 3, cmyk_to_rgb(&pixels)),
        _ => Picture::new(width, height, channels, pixels),
    })
}

/// True if the image is accepted although the decoder reported a problem. Only its first problem is reported, so check
/// separately that the end exists.
fn is_tolerated(fault: &JpegFault, encoded: &[u8], options: &DecodeOptions) -> bool {
    match fault {
        JpegFault::Fatal(_) => false,
        JpegFault::Damaged(message) => match options.truncated {
            Truncated::Fill => true,
            Truncated::Refuse => has_end(encoded) && HARMLESS.iter().any(|harmless| message.contains(harmless)),
            Truncated::RefuseAny => false,
        },
    }
}

/// True if the end-of-image marker exists after the first scan: a thumbnail in the header has its own marker.
fn has_end(encoded: &[u8]) -> bool {
    let mut at = 2;
    while let [0xff, marker, rest @ ..] = encoded.get(at..).unwrap_or_default() {
        match (marker, rest) {
            (0xff, _) => at += 1,
            (0x01 | 0xd0..=0xd8, _) => at += 2,
            (0xda, [high, low, ..]) => {
                let header = usize::from(u16::from_be_bytes([*high, *low]));
                return rest.get(header..).is_some_and(|data| memchr::memmem::rfind(data, &[0xff, 0xd9]).is_some());
            }
            (_, [high, low, ..]) => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
            _ => return false,
        }
    }
    // There are bytes that belong to no marker, which the decoder skips.
    memchr::memmem::rfind(encoded, &[0xff, 0xd9]).is_some()
}

fn words(fault: JpegFault) -> Reason {
    match fault {
        JpegFault::Damaged(message) if message.contains(ENDS_EARLY) => {
            format!("the image is truncated ({message}); pass truncated=\"fill\" to decode the part that is there")
        }
        JpegFault::Damaged(message) => {
            format!("the image is damaged ({message}); pass truncated=\"fill\" to decode the part that is there")
        }
        JpegFault::Fatal(message) => format!("it can't be decoded as JPEG ({message})"),
    }
}
