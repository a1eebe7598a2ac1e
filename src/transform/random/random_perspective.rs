//! `RandomPerspective`: moves the four corners of the image inward by random amounts.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Interpolation, Operation};
use super::super::perspective::coefficients;
use super::gate;
use crate::TorchGenerator;

/// Draws where the corners move, with probability `p`.
pub(in super::super) fn draw(
    p: f64,
    distortion_scale: f64,
    (interpolation, fill): (Interpolation, &[f32]),
    shape: &ImageShape,
    generator: &mut TorchGenerator,
) -> Result<Option<Operation>, Reason> {
    if !gate(p, generator) {
        return Ok(None);
    }
    let &ImageShape { height, width, .. } = shape;
    let reach = |length: usize| (distortion_scale * (length / 2) as f64) as u64 + 1;
    let (down, across) = (reach(height), reach(width));
    if down > height as u64 || across > width as u64 {
        return Err(format!("perspective is not possible for an image of {height} x {width} pixels"));
    }
    // Clockwise from the upper left corner, x before y for each.
    let is_far = [[false, false], [true, false], [true, true], [false, true]];
    let corners = is_far.map(|[is_right, is_low]| {
        let x = generator.random_below(across) + if is_right { width as u64 - across } else { 0 };
        let y = generator.random_below(down) + if is_low { height as u64 - down } else { 0 };
        [x as i64, y as i64]
    });
    Ok(Some(Operation::Perspective {
        coefficients: coefficients(corners, height, width)?,
        interpolation,
        fill: fill.to_vec(),
    }))
}
