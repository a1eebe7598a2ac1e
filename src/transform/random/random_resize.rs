//! `RandomResize`: draws the length of the shorter edge.

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Antialias, Interpolation, Operation};
use super::super::resize_to::ResizeTo;
use super::resize;
use crate::TorchGenerator;

/// Draws a length from `min_size` up to, but not including, `max_size`.
pub(in super::super) fn draw(
    [min_size, max_size]: [usize; 2],
    (interpolation, antialias): (Interpolation, Antialias),
    shape: &ImageShape,
    generator: &mut TorchGenerator,
) -> Result<Operation, Reason> {
    let Some(lengths) = max_size.checked_sub(min_size).filter(|&lengths| lengths > 0) else {
        return Err(format!(
            "max_size: expected more than {min_size}, the min_size, got {max_size}; max_size itself is never drawn"
        ));
    };
    let length = min_size + generator.random_below(lengths as u64) as usize;
    resize(shape, ResizeTo::Shorter { length, max_size: None }, interpolation, antialias)
}
