//! `RandomResizedCrop`, and the rectangles that it shares with `RandomErasing`.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::Operation;
use super::torch_exp::torch_exp;
use super::uniform;
use crate::TorchGenerator;

/// Maximum number of attempts to draw a rectangle that fits.
pub(super) const TRIES: usize = 10;

/// An upper bound on the error of torch's exponential, in units in the last place.
const MARGIN: u32 = 4;

/// Draws a share of `area` and an aspect ratio; returns the two edges, the first of which is longer for ratios above 1.
/// With `log_ratio`, torch's logarithms of `ratio`, the edges are torch's.
pub(super) fn edges(
    area: f64,
    scale: [f64; 2],
    (ratio, log_ratio): ([f64; 2], Option<[f64; 2]>),
    generator: &mut TorchGenerator,
) -> Result<[usize; 2], Reason> {
    if let Some(log_ratio) = log_ratio {
        return edges_of_torch(area, scale, log_ratio, generator);
    }
    let area = area * uniform(scale, generator)?;
    Ok(edges_of(area, uniform(logarithms(ratio), generator)?.exp() as f32))
}

fn edges_of(area: f64, ratio: f32) -> [usize; 2] {
    let ratio = f64::from(ratio);
    [area * ratio, area / ratio].map(|square| square.sqrt().round_ties_even() as usize)
}

/// Returns the same edges as torch, whose exponential is off by less than two units in the last place. If [`MARGIN`]
/// units make no difference, our own exponential suffices; otherwise, once in thousands, torch computes it.
fn edges_of_torch(
    area: f64,
    scale: [f64; 2],
    log_ratio: [f64; 2],
    generator: &mut TorchGenerator,
) -> Result<[usize; 2], Reason> {
    let area = area * uniform(scale, generator)?;
    let power = uniform(log_ratio, generator)?;
    let ratio = power.exp() as f32;
    let near = [f32::from_bits(ratio.to_bits().saturating_sub(MARGIN)), f32::from_bits(ratio.to_bits() + MARGIN)];
    let [least, most] = near.map(|ratio| edges_of(area, ratio));
    if least == most {
        return Ok(least);
    }
    Ok(edges_of(area, torch_exp(power as f32)?))
}

/// Returns the logarithms between which ratios are drawn, like torch's in float32.
fn logarithms(ratio: [f64; 2]) -> [f64; 2] {
    ratio.map(|ratio| f64::from(f64::from(ratio as f32).ln() as f32))
}

/// Draws the part of the image that is resized afterwards.
pub(in super::super) fn draw(
    shape: &ImageShape,
    scale: [f64; 2],
    (ratio, log_ratio): ([f64; 2], Option<[f64; 2]>),
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    let &ImageShape { height, width, .. } = shape;
    let area = height as f64 * width as f64;
    for _ in 0..TRIES {
        let [w, h] = edges(area, scale, (ratio, log_ratio), generator)?;
        if 0 < w && w <= width && 0 < h && h <= height {
            let top = generator.random_below((height - h + 1) as u64) as i64;
            let left = generator.random_below((width - w + 1) as u64) as i64;
            return Ok(Operation::Crop { top, left, height: h, width: w });
        }
    }
    let [least, most] = [ratio[0].min(ratio[1]), ratio[0].max(ratio[1])];
    let own = width as f64 / height as f64;
    let rounded = |length: f64| (length.round_ties_even() as usize).max(usize::from(log_ratio.is_none()));
    let (h, w) = if own < least {
        (rounded(width as f64 / least), width)
    } else if own > most {
        (height, rounded(height as f64 * most))
    } else {
        (height, width)
    };
    if h == 0 || w == 0 {
        return Err(format!("a crop of an image of {width} x {height} pixels would be empty"));
    }
    let (top, left) = ((height as i64 - h as i64).div_euclid(2), (width as i64 - w as i64).div_euclid(2));
    Ok(Operation::Crop { top, left, height: h, width: w })
}
