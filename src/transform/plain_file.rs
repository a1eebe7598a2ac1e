//! [`PlainFile`]: files that Pillow is known to read as this crate does.

use super::plain_jpeg::PlainJpeg;
use super::plain_png::PlainPng;

/// What the beginning of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    Plain(PlainFile),
    /// The headers do not end within these bytes.
    TooShort,
    /// It is of another kind, or Pillow may see something else in it.
    Other,
}

/// A file that Pillow is known to read as this crate does, as far as its headers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainFile {
    Jpeg(PlainJpeg),
    Png(PlainPng),
}

impl PlainFile {
    /// What the beginning of a file says.
    pub(crate) fn of(bytes: &[u8]) -> Beginning {
        match PlainPng::of(bytes) {
            Some(png) => Beginning::Plain(Self::Png(png)),
            None => PlainJpeg::of(bytes),
        }
    }

    /// The height and the width.
    pub(crate) fn size(&self) -> [usize; 2] {
        match self {
            Self::Jpeg(jpeg) => [jpeg.height, jpeg.width],
            Self::Png(png) => [png.height, png.width],
        }
    }

    /// Whether Pillow has it as an image in color at once.
    pub(crate) fn is_in_color(&self) -> bool {
        match self {
            Self::Jpeg(jpeg) => jpeg.is_in_color,
            Self::Png(png) => png.is_in_color(),
        }
    }
}
