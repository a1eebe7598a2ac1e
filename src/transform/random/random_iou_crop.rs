//! [`RandomIoUCrop`]: crops a part of the image that overlaps a box by at least a random share.

use super::super::box_format::BoxFormat;
use super::super::image_shape::ImageShape;
use super::super::{Boxes, Coordinates, Operation, Reason};
use crate::TorchGenerator;

/// Left, top, right, bottom.
type Corners = [f64; 4];

/// The arguments.
pub(in super::super) struct RandomIoUCrop<'a> {
    /// The bounds of a part's share of each edge.
    pub(in super::super) scales: [f64; 2],
    /// The bounds of a part's aspect ratio.
    pub(in super::super) ratios: [f64; 2],
    pub(in super::super) sampler_options: &'a [f64],
    pub(in super::super) trials: usize,
}

impl RandomIoUCrop<'_> {
    /// Returns the crop drawn for these boxes, and the operation that marks boxes whose centers are outside it; None if
    /// the image stays as it is.
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        boxes: Option<&Boxes>,
        generator: &mut TorchGenerator,
    ) -> Result<Option<[Operation; 2]>, Reason> {
        let boxes = boxes.ok_or("RandomIoUCrop needs the boxes of the image, and none were given")?;
        if !self.sampler_options.iter().any(|&option| option >= 1.0) {
            return Err("sampler_options: expected at least one number from 1 up, which ends the draws".into());
        }
        if !self.scales.iter().all(|scale| (0.0..=1.0).contains(scale)) {
            let [min_scale, max_scale] = self.scales;
            return Err(format!("min_scale, max_scale: expected 0 to 1, got {min_scale} and {max_scale}"));
        }
        let coordinates = boxes.coordinates;
        let corners = |&numbers: &[f64; 4]| boxes.format.convert(BoxFormat::Corners, numbers, coordinates);
        let boxes: Vec<Corners> = boxes.numbers.iter().map(corners).collect();
        loop {
            let least = self.sampler_options[generator.random_below(self.sampler_options.len() as u64) as usize];
            if least >= 1.0 {
                return Ok(None);
            }
            for _ in 0..self.trials {
                let Some(part) = self.part(shape, generator)? else { continue };
                let kept: Vec<bool> = boxes.iter().map(|&each| has_center(part, each, coordinates)).collect();
                let inside = boxes.iter().zip(&kept).filter(|(_, is_kept)| **is_kept);
                let overlaps = inside.map(|(&each, _)| overlap(each, part, coordinates));
                // Torch's maximum is NaN if one of the values is, and NaN is not below any limit.
                let most = overlaps.reduce(|most, each| if each.is_nan() || each > most { each } else { most });
                let limit = coordinates.as_floats().round(least);
                if most.is_some_and(|most| most.is_nan() || most >= limit) {
                    let [left, top, right, bottom] = part.map(|edge| edge as i64);
                    let (height, width) = ((bottom - top) as usize, (right - left) as usize);
                    let crop = Operation::Crop { top, left, height, width };
                    return Ok(Some([crop, Operation::BlankBoxes { kept }]));
                }
            }
        }
    }

    /// Draws the next part; returns None if it is too narrow, too wide, or empty.
    fn part(&self, shape: &ImageShape, generator: &mut TorchGenerator) -> Result<Option<Corners>, Reason> {
        let [min_scale, max_scale] = self.scales;
        // Torch uses float32.
        let (least, range) = (min_scale as f32, (max_scale - min_scale) as f32);
        let mut scaled = |length: usize| (length as f32 * (least + range * generator.rand_f32())) as i64;
        let (width, height) = (scaled(shape.width), scaled(shape.height));
        if height == 0 {
            return Err(format!(
                "min_scale: a crop of {min_scale} of {} rows is empty; use larger images, or a larger min_scale",
                shape.height
            ));
        }
        let ratio = width as f64 / height as f64;
        let [narrowest, widest] = self.ratios;
        if !(narrowest..=widest).contains(&ratio) {
            return Ok(None);
        }
        let mut place = |spare: i64| (spare as f32 * generator.rand_f32()) as i64;
        let left = place(shape.width as i64 - width);
        let top = place(shape.height as i64 - height);
        let part = [left, top, left + width, top + height].map(|edge| edge as f64);
        Ok((width > 0).then_some(part))
    }
}

fn has_center(part: Corners, of: Corners, coordinates: Coordinates) -> bool {
    // The sum of integers is an integer; its half is a float.
    let middle = |from: f64, to: f64| coordinates.as_floats().round(coordinates.round(from + to)) * 0.5;
    let (x, y) = (middle(of[0], of[2]), middle(of[1], of[3]));
    part[0] < x && x < part[2] && part[1] < y && y < part[3]
}

/// Returns the intersection over the union, with the arithmetic of `torchvision.ops.box_iou`.
fn overlap(one: Corners, other: Corners, coordinates: Coordinates) -> f64 {
    let length = |from: f64, to: f64| coordinates.round(to - from);
    let area = |[left, top, right, bottom]: Corners| coordinates.round(length(left, right) * length(top, bottom));
    let across = length(one[0].max(other[0]), one[2].min(other[2])).max(0.0);
    let down = length(one[1].max(other[1]), one[3].min(other[3])).max(0.0);
    let shared = coordinates.round(across * down);
    let union = coordinates.round(coordinates.round(area(one) + area(other)) - shared);
    coordinates.ratio(shared, union)
}
