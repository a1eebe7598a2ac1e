//! `jpeg`: encodes the picture and decodes it again with libjpeg-turbo, like torchvision's `encode_jpeg` and
//! `decode_jpeg`.

use super::picture::Picture;
use super::{Reason, gray_or_colors};
use crate::memory::{JpegColors, JpegDecoder, JpegFault, Region, encode_jpeg};

pub(in super::super) fn bytes(picture: &mut Picture<u8>, quality: u8) -> Result<(), Reason> {
    gray_or_colors(picture.channels)?;
    let colors = if picture.channels == 1 { JpegColors::Gray } else { JpegColors::Rgb };
    let &mut Picture { width, height, .. } = picture;
    let encoded = encode_jpeg(&picture.pixels, [width, height], colors, quality).map_err(words)?;
    let mut decoder = JpegDecoder::new().map_err(words)?;
    let header = decoder.header(&encoded).map_err(words)?;
    let whole = Region { left: 0, top: 0, width, height };
    decoder.decode(&encoded, &header, 8, whole, colors, &mut picture.pixels).map_err(words)
}

pub(in super::super) fn refuse_floats() -> Reason {
    "JPEG needs an image of bytes, but this one has floats; put JPEG before the conversion".into()
}

fn words((JpegFault::Fatal(message) | JpegFault::Damaged(message)): JpegFault) -> Reason {
    format!("it can't be encoded as JPEG ({message})")
}
