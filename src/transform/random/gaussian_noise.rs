//! [`GaussianNoise`]: a normal deviate for each value.

use serde::{Deserialize, Serialize};

use super::super::Reason;
use super::super::image_transform::ImageShape;
use super::super::operation::{Noise, Operation};
use super::normal::normal;
use crate::TorchGenerator;

/// `GaussianNoise`: normal deviates of this `mean` and deviation `sigma` are added, in units of white, and the sums limited to
/// black and white where `clip` is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's class")]
pub struct GaussianNoise {
    pub mean: f64,
    pub sigma: f64,
    pub clip: bool,
}

impl GaussianNoise {
    /// torch draws in the order in which the values lie in memory: here they count as (channels, height, width).
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
