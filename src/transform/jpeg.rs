//! JPEG, by libjpeg-turbo: the pixels that Pillow and torchvision have, bit for bit.

use super::Reason;
use super::decode::{DecodeOptions, Truncated, check_size};
use super::image::Image;
use super::image_mode::{ImageMode, cmyk_to_rgb};
use crate::DType;
use crate::memory::{JpegColours, JpegDecoder, JpegFault, JpegHeader, Region};

/// What the decoder says where an image ends too early: a text of libjpeg, which has no numbers in this interface.
const ENDS_EARLY: &str = "Premature end of JPEG file";

/// What it says of files that cameras and programs wrote so, and that have lost nothing: bytes that belong to no marker, and
/// headers that say something else than they should about what nobody asks for.
const HARMLESS: [&str; 4] = [
    "extraneous bytes before marker",
    "Invalid SOS parameters for sequential JPEG",
    "Unknown Adobe color transform code",
    "unknown JFIF revision number",
];

/// Width and height, in pixels.
pub(super) fn size(encoded: &[u8]) -> Result<(usize, usize), Reason> {
    let header = JpegDecoder::new().and_then(|mut decoder| decoder.header(encoded)).map_err(words)?;
    Ok((header.width, header.height))
}

pub(super) fn decode(encoded: &[u8], options: &DecodeOptions) -> Result<Image, Reason> {
    // One for each image: it keeps the tables of the last one, and a file that lacks some would be decoded with those.
    let mut decoder = JpegDecoder::new().map_err(words)?;
    let header = decoder.header(encoded).map_err(words)?;
    check_size(header.width, header.height, options)?;
    let colours = match (header.colours, options.mode) {
        (JpegColours::Cmyk, _) => JpegColours::Cmyk,
        (JpegColours::Grey, ImageMode::Unchanged | ImageMode::Grey) => JpegColours::Grey,
        _ => JpegColours::Rgb,
    };
    let channels = match colours {
        JpegColours::Grey => 1,
        JpegColours::Rgb => 3,
        JpegColours::Cmyk => 4,
    };
    let JpegHeader { width, height, .. } = header;
    let mut pixels = vec![0; width * height * channels];
    let whole = Region { left: 0, top: 0, width, height };
    match decoder.decode(encoded, &header, 8, whole, colours, &mut pixels) {
        Err(fault) if !is_forgiven(&fault, encoded, options) => return Err(words(fault)),
        _ => {}
    }
    Ok(match colours {
        JpegColours::Cmyk => Image::new(width, height, 3, DType::UInt8, cmyk_to_rgb(&pixels)),
        _ => Image::new(width, height, channels, DType::UInt8, pixels),
    })
}

/// Whether the image is taken although the decoder found something. Only the first thing that it finds is told: whether the
/// end is there is looked up.
fn is_forgiven(fault: &JpegFault, encoded: &[u8], options: &DecodeOptions) -> bool {
    match fault {
        JpegFault::Fatal(_) => false,
        JpegFault::Damaged(_) if options.truncated == Truncated::Fill => true,
        JpegFault::Damaged(said) => {
            let has_end = memchr::memmem::rfind(encoded, &[0xff, 0xd9]).is_some();
            has_end && HARMLESS.iter().any(|harmless| said.contains(harmless))
        }
    }
}

fn words(fault: JpegFault) -> Reason {
    match fault {
        JpegFault::Damaged(said) if said.contains(ENDS_EARLY) => {
            format!("the image is cut short ({said}): truncated=\"fill\" takes what there is of it")
        }
        JpegFault::Damaged(said) => {
            format!("the image is damaged ({said}): truncated=\"fill\" takes what there is of it")
        }
        JpegFault::Fatal(said) => format!("it can't be decoded as JPEG ({said})"),
    }
}
