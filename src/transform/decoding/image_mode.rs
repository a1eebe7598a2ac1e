//! [`ImageMode`]: the channels to which an image is decoded.

use super::super::Reason;
use super::super::image::Image;
use crate::DType;

/// The channels to which an image is decoded, with Pillow's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageMode {
    /// Red, green, and blue. Gray fills all three; alpha is dropped.
    #[default]
    Rgb,
    /// Gray: colors become their luma (ITU-R BT.601), with Pillow's integer arithmetic.
    Gray,
    /// Red, green, blue, and alpha, which is 255 if nothing is transparent.
    Rgba,
    /// The stored channels and depth; palettes become colors, and CMYK becomes RGB.
    Unchanged,
    /// Numbers instead of colors, as in masks: the palette indices of a PNG's pixels, or gray values. 8 bits.
    Palette,
}

impl std::str::FromStr for ImageMode {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Self> {
        match name {
            "RGB" => Ok(Self::Rgb),
            "L" => Ok(Self::Gray),
            "RGBA" => Ok(Self::Rgba),
            "unchanged" => Ok(Self::Unchanged),
            "P" => Ok(Self::Palette),
            _ => Err(crate::Error::invalid(
                "mode",
                format!("expected 'RGB', 'L', 'RGBA', 'P' or 'unchanged', but got '{name}'"),
            )),
        }
    }
}

impl ImageMode {
    /// Returns the number of channels, or None if it depends on the image.
    #[must_use]
    pub fn channels(self) -> Option<usize> {
        match self {
            Self::Rgb => Some(3),
            Self::Gray | Self::Palette => Some(1),
            Self::Rgba => Some(4),
            Self::Unchanged => None,
        }
    }

    /// Converts the image to this mode.
    ///
    /// # Errors
    /// The reason why its pixels cannot be numbers in mode [`Palette`](Self::Palette): colors are not numbers.
    pub(in crate::transform) fn convert(self, image: Image) -> Result<Image, Reason> {
        let Some(channels) = self.channels() else { return Ok(image) };
        if self == Self::Palette {
            return match (image.channels(), image.dtype()) {
                (1, DType::UInt8) => Ok(image),
                (found, dtype) => Err(format!(
                    "mode 'P' needs a PNG with a palette or an 8-bit gray image, but this one has {found} channels of \
                     {dtype}"
                )),
            };
        }
        let image = eight_bits(image);
        let (width, height, found) = (image.width(), image.height(), image.channels());
        if found == channels {
            return Ok(image);
        }
        let pixels = image.into_pixels();
        let pixels = match (found, channels) {
            (1, 3) => map::<1, 3>(&pixels, |[gray]| [gray; 3]),
            (1, 4) => map::<1, 4>(&pixels, |[gray]| [gray, gray, gray, 255]),
            (2, 1) => map::<2, 1>(&pixels, |[gray, _]| [gray]),
            (2, 3) => map::<2, 3>(&pixels, |[gray, _]| [gray; 3]),
            (2, 4) => map::<2, 4>(&pixels, |[gray, alpha]| [gray, gray, gray, alpha]),
            (3, 1) => map::<3, 1>(&pixels, |rgb| [luma(rgb)]),
            (3, 4) => map::<3, 4>(&pixels, |[red, green, blue]| [red, green, blue, 255]),
            (4, 1) => map::<4, 1>(&pixels, |[red, green, blue, _]| [luma([red, green, blue])]),
            _ => map::<4, 3>(&pixels, |[red, green, blue, _]| [red, green, blue]),
        };
        Ok(Image::new(width, height, channels, DType::UInt8, pixels))
    }
}

/// Keeps the upper 8 of 16 bits, so that a value of the full range remains one.
fn eight_bits(image: Image) -> Image {
    if image.dtype() == DType::UInt8 {
        return image;
    }
    let (width, height, channels) = (image.width(), image.height(), image.channels());
    let upper = |pair: &[u8]| (u16::from_ne_bytes([pair[0], pair[1]]) >> 8) as u8;
    let pixels = image.pixels().chunks_exact(2).map(upper).collect();
    Image::new(width, height, channels, DType::UInt8, pixels)
}

/// Returns Pillow's luma: ITU-R BT.601 in units of 2^-16.
fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((u32::from(red) * 19_595 + u32::from(green) * 38_470 + u32::from(blue) * 7_471 + 0x8000) >> 16) as u8
}

/// Converts CMYK pixels, stored inverted like Adobe does (255 means no ink), to RGB, with Pillow's integer arithmetic.
pub(in crate::transform) fn cmyk_to_rgb(pixels: &[u8]) -> Vec<u8> {
    let light = |ink: u8, black: u8| {
        let product = u32::from(255 - ink) * u32::from(black) + 128;
        let shade = ((product >> 8) + product) >> 8;
        black.saturating_sub(shade as u8)
    };
    map::<4, 3>(pixels, |[cyan, magenta, yellow, black]| {
        [light(cyan, black), light(magenta, black), light(yellow, black)]
    })
}

fn map<const FROM: usize, const TO: usize>(pixels: &[u8], to: impl Fn([u8; FROM]) -> [u8; TO]) -> Vec<u8> {
    let mut into = vec![0; pixels.len() / FROM * TO];
    for (pixel, into) in pixels.chunks_exact(FROM).zip(into.chunks_exact_mut(TO)) {
        let mut values = [0; FROM];
        values.copy_from_slice(pixel);
        into.copy_from_slice(&to(values));
    }
    into
}
