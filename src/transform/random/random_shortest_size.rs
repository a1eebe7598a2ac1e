//! [`RandomShortestSize`]: picks the length of the shorter edge from a list.

use serde::{Deserialize, Serialize};

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Antialias, Interpolation, Operation};
use super::super::resize_to::ResizeTo;
use super::resize;
use crate::TorchGenerator;

/// `RandomShortestSize`: the shorter edge gets a length of `min_size`, unless the longer edge would exceed `max_size`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's class")]
pub struct RandomShortestSize {
    pub min_size: Vec<usize>,
    pub max_size: Option<usize>,
    pub interpolation: Interpolation,
    pub antialias: Antialias,
}

impl RandomShortestSize {
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        generator: &mut TorchGenerator,
    ) -> Result<Operation, Reason> {
        if self.min_size.is_empty() {
            return Err("min_size: expected at least one length, but got an empty sequence".into());
        }
        let length = self.min_size[generator.random_below(self.min_size.len() as u64) as usize];
        let (height, width) = (shape.height as f64, shape.width as f64);
        let mut ratio = length as f64 / height.min(width);
        if let Some(longest) = self.max_size {
            ratio = ratio.min(longest as f64 / height.max(width));
        }
        let size = ResizeTo::Exact([(height * ratio) as usize, (width * ratio) as usize]);
        resize(shape, size, self.interpolation, self.antialias)
    }
}
