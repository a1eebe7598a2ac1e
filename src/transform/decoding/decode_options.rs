//! [`DecodeOptions`]: how images are decoded, and which are not.

use super::super::Reason;
use super::image_mode::ImageMode;

/// Default maximum number of pixels of an image: the limit above which Pillow's `Image.open` raises.
const MOST_PIXELS: u64 = 178_956_970;

/// How to decode images.
///
/// # Example
/// ```
/// use sluicegate::{DecodeOptions, ImageMode};
/// let gray = DecodeOptions { mode: ImageMode::Gray, ..DecodeOptions::default() };
/// assert_eq!(gray.max_pixels, 178_956_970);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions {
    /// The channels to decode to.
    pub mode: ImageMode,
    /// How to treat a file that specifies an orientation.
    pub orientation: Orientation,
    /// How to treat a JPEG that is truncated or damaged.
    pub truncated: Truncated,
    /// Maximum number of pixels of an image, because a small file may claim any number.
    pub max_pixels: u64,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            mode: ImageMode::Rgb,
            orientation: Orientation::AsStored,
            truncated: Truncated::Refuse,
            max_pixels: MOST_PIXELS,
        }
    }
}

/// How to treat a file that specifies an orientation, as phones' photos do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orientation {
    /// Ignore it, except in a TIFF: rows are returned as they are stored, as in Pillow and torchvision.
    #[default]
    AsStored,
    /// Rotate the image according to its EXIF data.
    Exif,
}

/// How to treat a JPEG that is truncated or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncated {
    /// Return an error.
    #[default]
    Refuse,
    /// Return an error even for a problem known to be harmless: the decoder reports only the first of several.
    RefuseAny,
    /// Return the part that exists. The decoder fills the rest with gray, as with Pillow's `LOAD_TRUNCATED_IMAGES`.
    Fill,
}

/// Fails if an image of that size must not be decoded.
pub(in crate::transform) fn check_size(width: usize, height: usize, options: &DecodeOptions) -> Result<(), Reason> {
    let pixels = width as u64 * height as u64;
    match pixels {
        0 => Err(format!("its header declares {width} x {height} pixels, so it is empty")),
        _ if pixels > options.max_pixels => Err(format!(
            "its header declares {width} x {height} pixels, {pixels} in total, but max_pixels is {}; raise max_pixels \
             if you trust the image",
            options.max_pixels
        )),
        _ => Ok(()),
    }
}
