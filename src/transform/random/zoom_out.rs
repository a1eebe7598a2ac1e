//! [`RandomZoomOut`]: puts the image at a random position in a larger one.

use serde::{Deserialize, Serialize};

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Operation, PaddingMode};
use super::crop::pad;
use super::gate;
use crate::TorchGenerator;

/// `RandomZoomOut`: with probability `p`, puts the image in one whose edges are longer by a factor from `side_range`.
///
/// Source: Liu et al., "SSD: Single shot multibox detector", ECCV 2016.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's class")]
pub struct RandomZoomOut {
    pub fill: Vec<f32>,
    pub side_range: [f64; 2],
    pub p: f64,
}

impl RandomZoomOut {
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        generator: &mut TorchGenerator,
    ) -> Result<Option<Operation>, Reason> {
        if !gate(self.p, generator) {
            return Ok(None);
        }
        let [least, most] = self.side_range;
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
        Ok(Some(pad([left, top, right, bottom], &self.fill, PaddingMode::Constant)))
    }
}
