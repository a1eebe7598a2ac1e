//! The orientation of an image according to its EXIF data.

use image::metadata::Orientation;

use super::super::image::Image;
use super::decode_options;
use super::image_format::ImageFormat;
use super::raster::{self, RasterFormat};

/// Returns how to rotate the image; no rotation if its data do not specify one, or cannot be understood.
///
/// A TIFF is always rotated: its orientation is a tag of the image itself, which Pillow applies when loading.
pub(in crate::transform) fn orientation(
    encoded: &[u8],
    format: ImageFormat,
    option: decode_options::Orientation,
) -> Orientation {
    let is_followed = option == decode_options::Orientation::Exif || format == ImageFormat::Raster(RasterFormat::Tiff);
    let found = match format {
        _ if !is_followed => None,
        ImageFormat::Jpeg => jpeg_segment(encoded).and_then(Orientation::from_exif_chunk),
        ImageFormat::Raster(format) => raster::orientation(encoded, format),
    };
    found.unwrap_or(Orientation::NoTransforms)
}

/// Returns the EXIF data of a JPEG: the contents of the first segment marked as EXIF (Exif 2.32, section 4.7.2).
fn jpeg_segment(encoded: &[u8]) -> Option<&[u8]> {
    let mut rest = encoded.get(2..)?;
    loop {
        let (&[0xff, marker], after) = rest.split_first_chunk::<2>()? else { return None };
        match marker {
            // Fill bytes.
            0xff => {
                rest = &rest[1..];
                continue;
            }
            // The image data begin.
            0xda | 0xd9 => return None,
            _ => {}
        }
        let (length, _) = after.split_first_chunk::<2>()?;
        let segment = after.get(2..usize::from(u16::from_be_bytes(*length)))?;
        match segment.strip_prefix(b"Exif\0\0") {
            Some(exif) if marker == 0xe1 => return Some(exif),
            _ => rest = &after[segment.len() + 2..],
        }
    }
}

/// Returns the width and height of an image after it is rotated.
pub(in crate::transform) fn turned_size((width, height): (usize, usize), orientation: Orientation) -> (usize, usize) {
    match orientation {
        Orientation::NoTransforms
        | Orientation::FlipHorizontal
        | Orientation::Rotate180
        | Orientation::FlipVertical => (width, height),
        _ => (height, width),
    }
}

/// Returns the image, rotated and mirrored.
pub(in crate::transform) fn turn(image: Image, orientation: Orientation) -> Image {
    let [height, width, channels] = image.shape();
    let bytes = channels * image.dtype().bytes();
    let (right, down) = (width - 1, height - 1);
    if orientation == Orientation::NoTransforms {
        return image;
    }
    let (new_width, new_height) = turned_size((width, height), orientation);
    let mut pixels = Vec::with_capacity(image.pixels().len());
    for y in 0..new_height {
        for x in 0..new_width {
            let (row, column) = match orientation {
                Orientation::NoTransforms => (y, x),
                Orientation::FlipHorizontal => (y, right - x),
                Orientation::Rotate180 => (down - y, right - x),
                Orientation::FlipVertical => (down - y, x),
                Orientation::Rotate90FlipH => (x, y),
                Orientation::Rotate90 => (down - x, y),
                Orientation::Rotate270FlipH => (down - x, right - y),
                Orientation::Rotate270 => (x, right - y),
            };
            let at = (row * width + column) * bytes;
            pixels.extend_from_slice(&image.pixels()[at..at + bytes]);
        }
    }
    Image::new(new_width, new_height, channels, image.dtype(), pixels)
}
