//! `RandomShortestSize`: picks the length of the shorter edge from a list.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Antialias, Interpolation, Operation};
use super::super::resize_to::ResizeTo;
use super::resize;
use crate::TorchGenerator;

/// Draws one of the lengths.
pub(in super::super) fn draw(
    min_size: &[usize],
    max_size: Option<usize>,
    (interpolation, antialias): (Interpolation, Antialias),
    shape: &ImageShape,
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    if min_size.is_empty() {
        return Err("min_size: expected at least one length, but got an empty sequence".into());
    }
    let length = min_size[generator.random_below(min_size.len() as u64) as usize];
    let (height, width) = (shape.height as f64, shape.width as f64);
    let mut ratio = length as f64 / height.min(width);
    if let Some(longest) = max_size {
        ratio = ratio.min(longest as f64 / height.max(width));
    }
    let size = ResizeTo::Exact([(height * ratio) as usize, (width * ratio) as usize]);
    resize(shape, size, interpolation, antialias)
}
