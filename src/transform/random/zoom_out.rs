//! `RandomZoomOut`: puts the image at a random position in a larger one.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Operation, PaddingMode};
use super::crop::pad;
use super::gate;
use crate::TorchGenerator;

/// Draws the edges and the position, with probability `p`.
pub(in super::super) fn draw(
    p: f64,
    [least, most]: [f64; 2],
    fill: &[f32],
    shape: &ImageShape,
    generator: &mut TorchGenerator,
) -> Result<Option<Operation>, Reason> {
    if !gate(p, generator) {
        return Ok(None);
    }
    // torch uses float32.
    let factor = least as f32 + generator.rand_f32() * (most - least) as f32;
    if !(factor >= 1.0 && factor.is_finite()) {
        return Err(format!("side_range: expected factors of at least 1, got {least} and {most}"));
    }
    let larger = |length: usize| (length as f32 * factor) as i64;
    let [across, down] = [generator.rand_f32(), generator.rand_f32()];
    let place = |length: usize, share: f32| {
        let spare = larger(length) - length as i64;
        let before = (spare as f32 * share) as i64;
        [before, spare - before]
    };
    let ([left, right], [top, bottom]) = (place(shape.width, across), place(shape.height, down));
    Ok(Some(pad([left, top, right, bottom], fill, PaddingMode::Constant)))
}
