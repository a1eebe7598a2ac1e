//! `GaussianNoise`: adds a normal deviate to each value.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Noise, Operation};
use super::normal::normal;
use crate::TorchGenerator;

/// Draws the deviates. torch draws in memory order: here values are ordered as (channels, height, width).
pub(in super::super) fn draw(
    mean: f64,
    sigma: f64,
    limits: Noise,
    shape: &ImageShape,
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    if sigma.is_nan() || sigma < 0.0 {
        return Err(format!("sigma: expected a number that is not negative, got {sigma}"));
    }
    let deviates = normal(shape.channels * shape.height * shape.width, generator);
    Ok(Operation::GaussianNoise { mean, sigma, noise: limits, deviates })
}
