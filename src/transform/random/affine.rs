//! `RandomAffine`.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Interpolation, Operation};
use super::uniform;
use crate::TorchGenerator;

/// The ranges of angles, scales, and horizontal and vertical shears; `translate` has shares of width and height.
pub(in super::super) struct AffineRanges {
    pub(in super::super) degrees: [f64; 2],
    pub(in super::super) translate: Option<[f64; 2]>,
    pub(in super::super) scale: Option<[f64; 2]>,
    pub(in super::super) shear: [Option<[f64; 2]>; 2],
}

pub(in super::super) fn draw(
    shape: &ImageShape,
    ranges: &AffineRanges,
    (interpolation, center, fill): (Interpolation, Option<[f64; 2]>, &[f32]),
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    let angle = uniform(ranges.degrees, generator)?;
    let mut translate = [0.0; 2];
    if let Some(shares) = ranges.translate {
        let most = [shares[0] * shape.width as f64, shares[1] * shape.height as f64];
        for (pixels, most) in translate.iter_mut().zip(most) {
            *pixels = uniform([-most, most], generator)?.round_ties_even();
        }
    }
    let scale = ranges.scale.map_or(Ok(1.0), |scale| uniform(scale, generator))?;
    let mut shear = [0.0; 2];
    for (angle, range) in shear.iter_mut().zip(ranges.shear) {
        *angle = range.map_or(Ok(0.0), |range| uniform(range, generator))?;
    }
    Ok(Operation::Affine { angle, translate, scale, shear, interpolation, center, fill: fill.to_vec() })
}
