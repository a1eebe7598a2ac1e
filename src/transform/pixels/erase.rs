//! `erase`.

use super::level::Level;
use super::picture::Picture;
use super::{Reason, color_fits};
use crate::transform::Eraser;

/// Erases a rectangle: top, left, height, width. The part outside the image is ignored.
pub(in super::super) fn erase<T: Level>(
    picture: &mut Picture<T>,
    [top, left, height, width]: [usize; 4],
    with: &Eraser,
) -> Result<(), Reason> {
    let channels = picture.channels;
    let (row, size) = (picture.row(), height.saturating_mul(width));
    match with {
        Eraser::Color(color) => color_fits(color, channels)?,
        Eraser::Values(values) if size.checked_mul(channels) == Some(values.len()) => {}
        Eraser::Values(values) => {
            return Err(format!("expected {channels} x {height} x {width} values to erase with, got {}", values.len()));
        }
    }
    let right = left.saturating_add(width).min(picture.width);
    let bottom = top.saturating_add(height).min(picture.height);
    for y in top..bottom {
        for x in left..right {
            for (channel, value) in picture.pixels[y * row + x * channels..][..channels].iter_mut().enumerate() {
                let erased = match with {
                    Eraser::Color(color) => color.get(channel).or(color.first()).copied().unwrap_or(0.0),
                    Eraser::Values(values) => values[channel * size + (y - top) * width + (x - left)],
                };
                *value = T::from_float(erased);
            }
        }
    }
    Ok(())
}
