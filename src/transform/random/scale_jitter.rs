//! `ScaleJitter`: scales by a random factor, relative to the largest image that fits into a target.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Antialias, Interpolation, Operation};
use super::super::resize_to::ResizeTo;
use super::resize;
use crate::TorchGenerator;

/// Draws the factor.
pub(in super::super) fn draw(
    target_size: [usize; 2],
    [least, most]: [f64; 2],
    (interpolation, antialias): (Interpolation, Antialias),
    shape: &ImageShape,
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    // torch computes the scale and the lengths as float32 tensors, and only the fit in double precision. As in
    // torchvision, the second length of the target is the height.
    let scale = generator.rand_f32() * (most - least) as f32 + least as f32;
    let [across, down] = target_size.map(|length| length as f64);
    let fit = (down / shape.height as f64).min(across / shape.width as f64);
    let ratio = fit as f32 * scale;
    let size = [shape.height, shape.width].map(|length| (length as f32 * ratio) as usize);
    resize(shape, ResizeTo::Exact(size), interpolation, antialias)
}
