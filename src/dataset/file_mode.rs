//! [`FileMode`]: the images that files must hold, and their channels.

use crate::transform::{Beginning, ImageMode, PlainFile};
use crate::{Error, Result};

/// The images that the files of a [`FileImages`](super::FileImages) hold, by Pillow's name for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// Any image, converted to color ("RGB").
    Converted,
    /// Images in color, which are not converted.
    Color,
    /// Gray images ("L").
    Gray,
    /// Images with a palette ("P"), such as masks: values are the indices of colors.
    Palette,
}

impl FileMode {
    /// The number of channels of an image.
    #[must_use]
    pub fn channels(self) -> usize {
        match self {
            Self::Converted | Self::Color => 3,
            Self::Gray | Self::Palette => 1,
        }
    }

    /// The mode in which this crate decodes images.
    pub(super) fn decoded(self) -> ImageMode {
        match self {
            Self::Converted | Self::Color => ImageMode::Rgb,
            Self::Gray => ImageMode::Gray,
            Self::Palette => ImageMode::Palette,
        }
    }

    /// Returns `beginning`, or [`Beginning::Other`] for a file that this crate does not read in this mode.
    pub(super) fn plain(self, beginning: Beginning) -> Beginning {
        let Beginning::Plain(file) = beginning else { return beginning };
        let is_read = match self {
            Self::Converted => true,
            Self::Color => file.is_in_color(),
            Self::Gray => matches!(file, PlainFile::Png(png) if png.is_gray()),
            Self::Palette => matches!(file, PlainFile::Png(png) if png.has_palette()),
        };
        if is_read { beginning } else { Beginning::Other }
    }
}

impl std::str::FromStr for FileMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "converted" => Ok(Self::Converted),
            "RGB" => Ok(Self::Color),
            "L" => Ok(Self::Gray),
            "P" => Ok(Self::Palette),
            _ => Err(Error::invalid("mode", format!("expected converted, RGB, L, or P, got {name}"))),
        }
    }
}
