//! The random draws of transforms, one file per family: the draws of torchvision's classes, in the same order.

pub(super) mod affine;
pub(super) mod aug_mix;
pub(super) mod augment;
mod augment_policy;
pub(super) mod color;
pub(super) mod crop;
pub(super) mod erase;
pub(super) mod gaussian_noise;
pub(super) mod jpeg;
mod magnitude;
mod normal;
pub(super) mod random_iou_crop;
pub(super) mod random_perspective;
pub(super) mod random_resize;
pub(super) mod random_shortest_size;
pub(super) mod resized_crop;
pub(super) mod scale_jitter;
mod torch_exp;
pub(super) mod zoom_out;

pub(crate) use normal::normal;
pub use torch_exp::ask_torch;

use super::Reason;
use super::image_shape::ImageShape;
use super::operation::{Antialias, Frame, Interpolation, Operation};
use super::resize_to::ResizeTo;
use crate::TorchGenerator;

/// Returns true with probability `p`, drawn like torchvision.
pub(super) fn gate(p: f64, generator: &mut TorchGenerator) -> bool {
    // Torch compares in float32; NaN does not skip the operation.
    let skips = generator.rand_f32() >= p as f32;
    !skips
}

/// Draws a number from a range like `torch.empty(1).uniform_(low, high)`.
fn uniform([low, high]: [f64; 2], generator: &mut TorchGenerator) -> Result<f64, Reason> {
    let (from, to) = (low as f32, high as f32);
    if from > to || !(to - from).is_finite() {
        return Err(format!("expected a finite range, got {low} to {high}"));
    }
    Ok(generator.uniform_f32(from, to).into())
}

pub(super) fn blur(
    kernel_size: [usize; 2],
    sigma: [f64; 2],
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    let sigma = uniform(sigma, generator)?;
    Ok(Operation::GaussianBlur { kernel_size, sigma: [sigma; 2] })
}

pub(super) fn rotation(
    degrees: [f64; 2],
    (interpolation, frame): (Interpolation, Frame),
    center: Option<[f64; 2]>,
    fill: &[f32],
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    let angle = uniform(degrees, generator)?;
    Ok(Operation::Rotate { angle, interpolation, frame, center, fill: fill.to_vec() })
}

pub(super) fn resize(
    shape: &ImageShape,
    size: ResizeTo,
    interpolation: Interpolation,
    antialias: Antialias,
) -> Result<Operation, Reason> {
    let [height, width] = size.of([shape.height, shape.width])?;
    Ok(Operation::Resize { height, width, interpolation, antialias })
}
