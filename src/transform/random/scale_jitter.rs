//! [`ScaleJitter`]: scales by a random factor, relative to the largest image that fits into a target.

use serde::{Deserialize, Serialize};

use super::super::Reason;
use super::super::image_shape::ImageShape;
use super::super::operation::{Antialias, Interpolation, Operation};
use super::super::resize_to::ResizeTo;
use super::resize;
use crate::TorchGenerator;

/// `ScaleJitter`: fits the image into `target_size`, and scales it by a factor from `scale_range`.
///
/// Source: Ghiasi et al., "Simple copy-paste is a strong data augmentation method for instance segmentation", CVPR 2021
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's class")]
pub struct ScaleJitter {
    pub target_size: [usize; 2],
    pub scale_range: [f64; 2],
    pub interpolation: Interpolation,
    pub antialias: Antialias,
}

impl ScaleJitter {
    pub(in super::super) fn draw(
        &self,
        shape: &ImageShape,
        generator: &mut TorchGenerator,
    ) -> Result<Operation, Reason> {
        let [least, most] = self.scale_range;
        // torch computes the scale and the lengths as float32 tensors, and only the fit in double precision. As in
        // torchvision, the second length of the target is the height.
        let scale = generator.rand_f32() * (most - least) as f32 + least as f32;
        let [across, down] = self.target_size.map(|length| length as f64);
        let fit = (down / shape.height as f64).min(across / shape.width as f64);
        let ratio = fit as f32 * scale;
        let size = [shape.height, shape.width].map(|length| (length as f32 * ratio) as usize);
        resize(shape, ResizeTo::Exact(size), self.interpolation, self.antialias)
    }
}
