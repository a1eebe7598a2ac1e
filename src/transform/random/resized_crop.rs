//! `RandomResizedCrop`, and the rectangles that it shares with `RandomErasing`.

use super::super::Reason;
use super::super::image_transform::ImageShape;
use super::super::operation::Operation;
use super::uniform;
use crate::TorchGenerator;

/// So often a rectangle is drawn that must fit.
pub(super) const TRIES: usize = 10;

/// Draws a share of `area` and an aspect ratio: the two edges, of which the first is the longer one for ratios above 1.
pub(super) fn edges(
    area: f64,
    scale: [f64; 2],
    log_ratio: [f64; 2],
    generator: &mut TorchGenerator,
) -> Result<[usize; 2], Reason> {
    let area = area * uniform(scale, generator)?;
    let ratio = f64::from(uniform(log_ratio, generator)?.exp() as f32);
    Ok([area * ratio, area / ratio].map(|square| square.sqrt().round_ties_even() as usize))
}

/// The logarithms that ratios are drawn between, as torch has them in float32.
pub(super) fn logarithms(ratio: [f64; 2]) -> [f64; 2] {
    ratio.map(|ratio| f64::from(f64::from(ratio as f32).ln() as f32))
}

/// The part of the image that is resized afterwards.
pub(in super::super) fn draw(
    shape: &ImageShape,
    scale: [f64; 2],
    ratio: [f64; 2],
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    let &ImageShape { height, width, .. } = shape;
    let log_ratio = logarithms(ratio);
    for _ in 0..TRIES {
        let [w, h] = edges(height as f64 * width as f64, scale, log_ratio, generator)?;
        if 0 < w && w <= width && 0 < h && h <= height {
            let top = generator.random_below((height - h + 1) as u64) as i64;
            let left = generator.random_below((width - w + 1) as u64) as i64;
            return Ok(Operation::Crop { top, left, height: h, width: w });
        }
    }
    let [least, most] = [ratio[0].min(ratio[1]), ratio[0].max(ratio[1])];
    let own = width as f64 / height as f64;
    let rounded = |length: f64| (length.round_ties_even() as usize).max(1);
    let (h, w) = if own < least {
        (rounded(width as f64 / least), width)
    } else if own > most {
        (height, rounded(height as f64 * most))
    } else {
        (height, width)
    };
    let (top, left) = ((height as i64 - h as i64).div_euclid(2), (width as i64 - w as i64).div_euclid(2));
    Ok(Operation::Crop { top, left, height: h, width: w })
}
