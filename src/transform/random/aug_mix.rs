//! [`AugMix`]: several chains of operations, mixed.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Interpolation, Operation};
use super::super::torchvision::Torchvision;
use super::augment::MIXED;
use super::magnitude::{Reach, magnitude, operation, signed};
use crate::TorchGenerator;

/// Number of strengths.
const BINS: usize = 10;

/// Maximum number of operations in a chain if the number is random.
const LONGEST: u64 = 3;

/// Number of operations at the end of the list that are used only with `all_ops`: the color operations.
const OF_COLORS: usize = 4;

/// The arguments.
pub(in super::super) struct AugMix<'a> {
    pub(in super::super) severity: usize,
    pub(in super::super) mixture_width: usize,
    pub(in super::super) chain_depth: i64,
    pub(in super::super) alpha: f32,
    pub(in super::super) all_ops: bool,
    pub(in super::super) interpolation: Interpolation,
    pub(in super::super) fill: &'a [f32],
}

impl AugMix<'_> {
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        generator: &mut TorchGenerator,
    ) -> Result<Operation, Reason> {
        if !(1..=BINS).contains(&self.severity) {
            return Err(format!("severity: expected 1 to {BINS}, but got {}", self.severity));
        }
        if !(self.alpha > 0.0 && self.alpha.is_finite()) {
            return Err(format!("alpha: expected a positive number, but got {}", self.alpha));
        }
        let version = Torchvision::V2;
        let choices = if self.all_ops { &MIXED[..] } else { &MIXED[..MIXED.len() - OF_COLORS] };
        let of_image = generator.dirichlet_f32(self.alpha, 2);
        let of_chains = generator.dirichlet_f32(self.alpha, self.mixture_width);
        let mut shares = vec![of_image[0]];
        shares.extend(of_chains.into_iter().map(|share| share * of_image[1]));
        let mut chains = Vec::with_capacity(self.mixture_width);
        for _ in 0..self.mixture_width {
            let depth = match self.chain_depth {
                depth @ 1.. => depth as u64,
                _ => 1 + generator.random_below(LONGEST),
            };
            let mut chain = Vec::new();
            for _ in 0..depth {
                let chosen = choices[generator.random_below(choices.len() as u64) as usize];
                let mut strength = 0.0;
                // The presence of a magnitude does not depend on its index.
                if magnitude(chosen, (Reach::Mixed, version, shape), BINS, 0).is_some() {
                    let index = generator.random_below(self.severity as u64) as usize;
                    strength = magnitude(chosen, (Reach::Mixed, version, shape), BINS, index).unwrap_or_default();
                    strength = signed(chosen, strength, version, generator);
                }
                chain.extend(operation(chosen, strength, (version, shape.dtype), (self.interpolation, self.fill)));
            }
            chains.push(chain);
        }
        Ok(Operation::Mix { shares, chains })
    }
}
