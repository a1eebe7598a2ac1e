//! [`Image::decode`]: decodes the bytes of a file, in any supported format.

use super::super::Reason;
use super::super::image::Image;
use super::decode_options::{DecodeOptions, Orientation};
use super::exif::{orientation, turn, turned_size};
use super::image_format::ImageFormat;
use super::image_mode::ImageMode;
use super::jpeg;
use super::palette;
use super::raster::{self, RasterFormat};

impl Image {
    /// Decodes the bytes of a file: JPEG, PNG, WebP, BMP, GIF (first image), TIFF (first page), or PNM, recognized by the
    /// first bytes. JPEG is decoded to the values of Pillow and torchvision, bit for bit. Several threads may decode at the
    /// same time.
    ///
    /// # Errors
    /// The reason why the bytes are not an image, or one that must not be decoded; a caller that knows the file turns it
    /// into an error.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DecodeOptions, Image};
    /// let bitmap = [
    ///     &b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0"[..], // 58 bytes, of which the image begins at the 54th
    ///     &b"\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..],
    ///     &b"\x03\x02\x01\0"[..],
    /// ];
    /// let image = Image::decode(&bitmap.concat(), &DecodeOptions::default()).unwrap();
    /// assert_eq!((image.shape(), image.pixels()), ([1, 1, 3], &[1, 2, 3][..]));
    /// assert!(Image::decode(b"text", &DecodeOptions::default()).is_err());
    /// ```
    pub fn decode(encoded: &[u8], options: &DecodeOptions) -> Result<Self, Reason> {
        let format = ImageFormat::of(encoded)?;
        let numbers = match (format, options.mode) {
            (ImageFormat::Raster(RasterFormat::Png), ImageMode::Palette) => palette::numbers(encoded, options)?,
            _ => None,
        };
        let image = match (numbers, format) {
            (Some(numbers), _) => numbers,
            (None, ImageFormat::Jpeg) => jpeg::decode(encoded, options)?,
            (None, ImageFormat::Raster(format)) => raster::decode(encoded, format, options)?,
        };
        let image = options.mode.convert(image)?;
        Ok(turn(image, orientation(encoded, format, options.orientation)))
    }
}

/// Returns the width and height of an image in pixels with [`Orientation::AsStored`], without decoding it.
///
/// # Errors
/// As [`Image::decode`].
pub fn image_size(encoded: &[u8]) -> Result<(usize, usize), Reason> {
    let format = ImageFormat::of(encoded)?;
    match format {
        ImageFormat::Jpeg => jpeg::size(encoded),
        ImageFormat::Raster(raster) => {
            Ok(turned_size(raster::size(encoded, raster)?, orientation(encoded, format, Orientation::AsStored)))
        }
    }
}
