//! [`resize`]: resizes an image, or a part of it, within one gray level of Pillow and torch.

use super::Reason;
use super::convolution::Part;
use super::cubic::cubic;
use super::level::Level;
use super::operation::{Antialias, Interpolation};
use super::picture::Picture;
use crate::memory::Region;

/// Maximum number of pixels of the result: when the shorter side of a thin strip is enlarged, its longer side can
/// become huge.
const MOST_PIXELS: usize = 1 << 28;

/// Returns `part` of `from`, resized to `width` x `height` pixels: bytes are within one gray level of Pillow and torch.
pub(super) fn resize<T: Level>(
    from: &Picture<T>,
    part: Part,
    [width, height]: [usize; 2],
    interpolation: Interpolation,
    antialias: Antialias,
) -> Result<Picture<T>, Reason> {
    if width == 0 || height == 0 || width.saturating_mul(height) > MOST_PIXELS {
        return Err(format!(
            "it can't be resized to {width} x {height} pixels: the result must have from 1 to {MOST_PIXELS} pixels"
        ));
    }
    if let (Interpolation::Nearest | Interpolation::NearestExact, Part::Whole(region)) = (interpolation, part) {
        return nearest(from, region, [width, height], interpolation);
    }
    let pixels = match (interpolation, antialias, part) {
        // Without antialiasing torch repeats the edge pixel beyond the edge.
        (Interpolation::Bicubic, Antialias::Off, Part::Whole(region)) => {
            let values = from.pixels.iter().map(|value| value.to_float()).collect();
            let values = Picture::new(from.width, from.height, from.channels, values);
            let limited = |value: f32| if T::IS_LIMITED { value.clamp(0.0, T::MOST) } else { value };
            let whole = |value: f32| T::rounded(limited(value)).to_float();
            cubic(&values, region, [width, height], whole).into_iter().map(|value| T::rounded(limited(value))).collect()
        }
        _ => return Ok(T::resize(from, part, [width, height], (interpolation, antialias))),
    };
    Ok(Picture::new(width, height, from.channels, pixels))
}

/// Returns `part` of `from`, resized to `width` x `height` pixels, each copied from one source pixel, with torch's
/// float32 arithmetic.
pub(super) fn nearest<T: Copy + Default>(
    from: &Picture<T>,
    part: Region,
    [width, height]: [usize; 2],
    interpolation: Interpolation,
) -> Result<Picture<T>, Reason> {
    if part.width == 0 || part.height == 0 {
        return Err("an empty image can't be resized".into());
    }
    let shift = if interpolation == Interpolation::NearestExact { 0.5 } else { 0.0 };
    let places = |found: usize, wanted: usize, first: usize| -> Vec<usize> {
        let step = found as f32 / wanted as f32;
        (0..wanted).map(|place| first + (((place as f32 + shift) * step) as usize).min(found - 1)).collect()
    };
    let columns = places(part.width, width, part.left);
    let mut pixels = from.room(height, width)?;
    for row in places(part.height, height, part.top) {
        let row = &from.pixels[row * from.row()..][..from.row()];
        for &column in &columns {
            pixels.extend_from_slice(&row[column * from.channels..][..from.channels]);
        }
    }
    Ok(Picture::new(width, height, from.channels, pixels))
}
