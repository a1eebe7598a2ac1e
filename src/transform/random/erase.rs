//! `RandomErasing`.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Eraser, Operation};
use super::super::transform_arguments::ErasingValue;
use super::normal::normal;
use super::resized_crop::{TRIES, edges};
use crate::TorchGenerator;

/// Draws the part to erase; None if none was found that is smaller than the image.
pub(in super::super) fn draw(
    shape: &ImageShape,
    scale: [f64; 2],
    (ratio, log_ratio): ([f64; 2], Option<[f64; 2]>),
    value: &ErasingValue,
    generator: &mut TorchGenerator,
) -> Result<Option<Operation>, Reason> {
    let &ImageShape { height, width, channels, .. } = shape;
    if let ErasingValue::Color(color) = value
        && ![1, channels].contains(&color.len())
    {
        return Err(format!(
            "value: expected one number, or one for each of the image's {channels} channels, but got {}",
            color.len()
        ));
    }
    for _ in 0..TRIES {
        let [h, w] = edges(height as f64 * width as f64, scale, (ratio, log_ratio), generator)?;
        if h >= height || w >= width {
            continue;
        }
        let with = match value {
            ErasingValue::Color(color) => Eraser::Color(color.clone()),
            ErasingValue::Random => Eraser::Values(normal(channels * h * w, generator)),
        };
        let top = generator.random_below((height - h + 1) as u64) as usize;
        let left = generator.random_below((width - w + 1) as u64) as usize;
        return Ok(Some(Operation::Erase { top, left, height: h, width: w, with }));
    }
    Ok(None)
}
