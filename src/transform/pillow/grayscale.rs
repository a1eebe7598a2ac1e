//! [`grayscale`]: converts colors like Pillow's mode "L".

use super::colors::{OfColor, map};
use crate::transform::{Picture, Reason};

/// Returns the gray value of a color: a weighted sum in units of 1/65536, rounded.
#[inline(always)]
pub(super) fn luma([red, green, blue]: [i32; 3]) -> i32 {
    (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
}

#[inline(always)]
pub(super) fn luma_of(color: [u8; 3]) -> u8 {
    luma(color.map(i32::from)) as u8
}

struct Gray;

impl OfColor for Gray {
    #[inline(always)]
    fn of(&self, color: [i32; 3]) -> [i32; 3] {
        [luma(color); 3]
    }
}

/// Returns the image in gray, with 1 channel or 3 equal channels.
pub(super) fn grayscale(mut picture: Picture<u8>, channels: usize) -> Result<Picture<u8>, Reason> {
    let pixels = match (picture.channels, channels) {
        (1, 1) => return Ok(picture),
        (3, 3) => {
            map(&mut picture.pixels, Gray);
            return Ok(picture);
        }
        (_, 1) => picture.pixels.as_chunks().0.iter().map(|&color| luma_of(color)).collect(),
        (_, 3) => picture.pixels.iter().flat_map(|&gray| [gray; 3]).collect(),
        _ => return Err(format!("num_output_channels: expected 1 or 3, got {channels}")),
    };
    Ok(Picture::new(picture.width, picture.height, channels, pixels))
}
