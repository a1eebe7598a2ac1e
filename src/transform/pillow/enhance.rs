//! Brightness, contrast, saturation, and sharpness: each is a blend with an image that lacks the property.

use super::blend::{between, blend};
use super::colors::{OfColor, map};
use super::grayscale::{luma, luma_of};
use crate::transform::Picture;
use crate::transform::pixels::lookup::{look_up, table};

/// Blends away from black, or toward it.
pub(super) fn brightness(picture: &mut Picture<u8>, factor: f32) {
    look_up(picture, &[table(|value| between(0, value.into(), factor) as u8)]);
}

/// Blends away from the mean gray, or toward it.
pub(super) fn contrast(picture: &mut Picture<u8>, factor: f32) {
    let pixels = picture.width * picture.height;
    if pixels == 0 {
        return;
    }
    let sum: u64 = match picture.channels {
        3 => picture.pixels.as_chunks().0.iter().map(|&color| luma_of(color)).map(u64::from).sum(),
        _ => picture.pixels.iter().copied().map(u64::from).sum(),
    };
    let mean = (sum as f64 / pixels as f64 + 0.5) as i32;
    look_up(picture, &[table(|value| between(mean, value.into(), factor) as u8)]);
}

struct Saturation(f32);

impl OfColor for Saturation {
    #[inline(always)]
    fn of(&self, color: [i32; 3]) -> [i32; 3] {
        let gray = luma(color);
        color.map(|value| between(gray, value, self.0))
    }
}

/// Blends away from gray, or toward it.
pub(super) fn saturation(picture: &mut Picture<u8>, factor: f32) {
    if picture.channels == 3 {
        map(&mut picture.pixels, Saturation(factor));
    }
}

/// Blends away from a blur of 3 x 3 pixels, or toward it; pixels without neighbors on every side stay unchanged.
pub(super) fn sharpness(picture: &mut Picture<u8>, factor: f32) {
    if picture.width < 3 || picture.height < 3 {
        return;
    }
    let (row, step) = (picture.row(), picture.channels);
    let mut blurred = picture.pixels.clone();
    let rows: Vec<&[u8]> = picture.pixels.chunks_exact(row).collect();
    let mut sums = vec![0_u16; row];
    for (rows, into) in rows.windows(3).zip(blurred.chunks_exact_mut(row).skip(1)) {
        let values = rows[0].iter().zip(rows[1]).zip(rows[2]);
        for (sum, ((above, at), below)) in sums.iter_mut().zip(values) {
            *sum = u16::from(*above) + u16::from(*at) + u16::from(*below);
        }
        let around = sums.iter().zip(&sums[step..]).zip(&sums[2 * step..]);
        let values = rows[1][step..].iter().zip(&mut into[step..]);
        for (((left, at), right), (value, into)) in around.zip(values) {
            let sum = left + at + right + 4 * u16::from(*value);
            // Rounded: a multiple of 1/13 is never halfway between two integers, whatever the error of Pillow's floats.
            *into = ((2 * sum + 13) / 26) as u8;
        }
    }
    blend(&blurred, &mut picture.pixels, factor);
}
