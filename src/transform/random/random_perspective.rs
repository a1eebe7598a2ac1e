//! [`RandomPerspective`]: moves the four corners of the image inward by random amounts.

use serde::{Deserialize, Serialize};

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Interpolation, Operation};
use super::super::perspective::coefficients;
use super::gate;
use crate::TorchGenerator;

/// `RandomPerspective`: with probability `p`, each corner moves inward by up to `distortion_scale` of half the edges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's class")]
pub struct RandomPerspective {
    pub distortion_scale: f64,
    pub p: f64,
    pub interpolation: Interpolation,
    pub fill: Vec<f32>,
}

impl RandomPerspective {
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        generator: &mut TorchGenerator,
    ) -> Result<Option<Operation>, Reason> {
        if !gate(self.p, generator) {
            return Ok(None);
        }
        let &ImageShape { height, width, .. } = shape;
        let reach = |length: usize| (self.distortion_scale * (length / 2) as f64) as u64 + 1;
        let (down, across) = (reach(height), reach(width));
        if down > height as u64 || across > width as u64 {
            return Err(format!("an image of {height} x {width} pixels can't be put in perspective"));
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
            interpolation: self.interpolation,
            fill: self.fill.clone(),
        }))
    }
}
