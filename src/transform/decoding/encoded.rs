//! [`Encoded`]: an image of known size that is not decoded yet.

use image::metadata::Orientation as Turn;

use super::super::Reason;
use super::super::image::Image;
use super::super::picture::Picture;
use super::decode_options::DecodeOptions;
use super::image_format::ImageFormat;
use super::jpeg::{self, EIGHTHS};
use super::{exif, raster};
use crate::DType;
use crate::memory::{JpegHeader, Region};

/// An image of known size that is not decoded yet.
pub(in crate::transform) struct Encoded<'a> {
    bytes: &'a [u8],
    options: &'a DecodeOptions,
    jpeg: Option<JpegHeader>,
    pub(in crate::transform) width: usize,
    pub(in crate::transform) height: usize,
}

impl<'a> Encoded<'a> {
    /// Reads the header, and rejects an image that must not be decoded.
    pub(in crate::transform) fn open(bytes: &'a [u8], options: &'a DecodeOptions) -> Result<Self, Reason> {
        let format = ImageFormat::of(bytes)?;
        let (jpeg, width, height) = match format {
            ImageFormat::Jpeg => {
                let header = jpeg::header(bytes, options)?;
                (Some(header), header.width, header.height)
            }
            ImageFormat::Raster(format) => {
                let (width, height) = raster::size(bytes, format)?;
                (None, width, height)
            }
        };
        let turn = exif::orientation(bytes, format, options.orientation);
        let (width, height) = exif::turned_size((width, height), turn);
        // An image that is rotated is decoded whole: mapping its parts to parts of the file risks more errors than it
        // saves work.
        let jpeg = jpeg.filter(|_| turn == Turn::NoTransforms);
        Ok(Self { bytes, options, jpeg, width, height })
    }

    /// Decodes at least `region`, and returns also the position of `region` in the decoded picture.
    pub(in crate::transform) fn decode(&self, region: Region) -> Result<(Picture<u8>, Region), Reason> {
        self.decode_scaled(region, EIGHTHS)
    }

    /// Returns the smallest number of pixels to which a block of 8 may be decoded when region `of` is resized to this
    /// width and height; 8 if the format supports no other.
    pub(in crate::transform) fn eighths(&self, of: Region, [width, height]: [usize; 2]) -> usize {
        let covers = |eighths: &usize| of.width * eighths >= width * EIGHTHS && of.height * eighths >= height * EIGHTHS;
        match self.jpeg {
            // The other fractions have no SIMD code.
            Some(_) => [1, 2, 4].into_iter().find(covers).unwrap_or(EIGHTHS),
            None => EIGHTHS,
        }
    }

    /// Like [`decode`](Self::decode), with blocks decoded to `eighths` pixels; `region` is in the pixels of that scaled
    /// image.
    pub(in crate::transform) fn decode_scaled(
        &self,
        region: Region,
        eighths: usize,
    ) -> Result<(Picture<u8>, Region), Reason> {
        let Some(header) = &self.jpeg else {
            return Ok((bytes_of(Image::decode(self.bytes, self.options)?)?, region));
        };
        let (picture, region) = jpeg::decode_part(self.bytes, header, self.options, eighths, region)?;
        let Picture { width, height, channels, pixels } = picture;
        if self.options.mode.channels().is_none_or(|wanted| wanted == channels) {
            return Ok((Picture::new(width, height, channels, pixels), region));
        }
        let image = self.options.mode.convert(Image::new(width, height, channels, DType::UInt8, pixels))?;
        Ok((bytes_of(image)?, region))
    }
}

fn bytes_of(image: Image) -> Result<Picture<u8>, Reason> {
    let [height, width, channels] = image.shape();
    match image.dtype() {
        DType::UInt8 => Ok(Picture::new(width, height, channels, image.into_pixels())),
        dtype => {
            Err(format!("its values are {dtype}, but transforms need uint8; choose a mode other than \"unchanged\""))
        }
    }
}
