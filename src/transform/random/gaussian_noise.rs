//! [`GaussianNoise`]: adds a normal deviate to each value.

use serde::{Deserialize, Serialize};

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Noise, Operation};
use super::normal::normal;
use crate::TorchGenerator;

/// `GaussianNoise`: adds normal deviates with this `mean` and standard deviation `sigma`, in units of white, and clamps
/// the sums to black and white if `clip` is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's class")]
pub struct GaussianNoise {
    pub mean: f64,
    pub sigma: f64,
    pub clip: bool,
}

impl GaussianNoise {
    /// torch draws in memory order: here values are ordered as (channels, height, width).
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        generator: &mut TorchGenerator,
    ) -> Result<Operation, Reason> {
        if self.sigma.is_nan() || self.sigma < 0.0 {
            return Err(format!("sigma: a deviation must not be negative, but got {}", self.sigma));
        }
        let deviates = normal(shape.channels * shape.height * shape.width, generator);
        let limits = if self.clip { Noise::Clipped } else { Noise::Free };
        Ok(Operation::GaussianNoise { mean: self.mean, sigma: self.sigma, noise: limits, deviates })
    }
}
