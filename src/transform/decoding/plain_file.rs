//! [`PlainFile`]: files that Pillow is known to read like this crate.

use super::plain_jpeg::{NotPlain, PlainJpeg};
use super::plain_png::PlainPng;

/// The result of parsing the beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// The file is one that Pillow reads like this crate.
    Plain(PlainFile),
    /// The headers do not end within these bytes.
    TooShort,
    /// The file is of another type, or Pillow may interpret it differently.
    Other,
}

/// A file that Pillow is known to read like this crate, as far as its headers show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainFile {
    /// A JPEG file.
    Jpeg(PlainJpeg),
    /// A PNG file.
    Png(PlainPng),
}

impl PlainFile {
    /// Parses the beginning of a file.
    pub fn of(bytes: &[u8]) -> Beginning {
        if let Some(png) = PlainPng::of(bytes) {
            return Beginning::Plain(Self::Png(png));
        }
        match PlainJpeg::of(bytes) {
            Ok(jpeg) => Beginning::Plain(Self::Jpeg(jpeg)),
            Err(NotPlain::TooShort) => Beginning::TooShort,
            Err(NotPlain::Other) => Beginning::Other,
        }
    }

    /// Returns the height and the width.
    pub fn size(&self) -> [usize; 2] {
        match self {
            Self::Jpeg(jpeg) => [jpeg.height, jpeg.width],
            Self::Png(png) => [png.height, png.width],
        }
    }

    /// True if Pillow opens it directly as a color image.
    pub fn is_in_color(&self) -> bool {
        match self {
            Self::Jpeg(jpeg) => jpeg.is_in_color,
            Self::Png(png) => png.is_in_color(),
        }
    }
}
