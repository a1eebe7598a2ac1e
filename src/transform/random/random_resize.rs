//! [`RandomResize`]: draws the length of the shorter edge.

use serde::{Deserialize, Serialize};

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Antialias, Interpolation, Operation};
use super::super::resize_to::ResizeTo;
use super::resize;
use crate::TorchGenerator;

/// `RandomResize`: the shorter edge gets a length from `min_size` up to, but not including, `max_size` pixels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's class")]
pub struct RandomResize {
    pub min_size: usize,
    pub max_size: usize,
    pub interpolation: Interpolation,
    pub antialias: Antialias,
}

impl RandomResize {
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        generator: &mut TorchGenerator,
    ) -> Result<Operation, Reason> {
        let Some(lengths) = self.max_size.checked_sub(self.min_size).filter(|&lengths| lengths > 0) else {
            return Err(format!(
                "max_size: expected more than min_size, which is {}, but got {}; max_size itself is never drawn",
                self.min_size, self.max_size
            ));
        };
        let length = self.min_size + generator.random_below(lengths as u64) as usize;
        resize(shape, ResizeTo::Shorter { length, max_size: None }, self.interpolation, self.antialias)
    }
}
