//! [`JpegQuality`]: the quality of an image that is encoded and decoded again.

use serde::{Deserialize, Serialize};

use super::super::operation::Operation;
use crate::TorchGenerator;

/// `JPEG`: the image is encoded with a quality between the two of `quality` (1 to 100, both included), and decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the argument is that of torchvision's class")]
pub struct JpegQuality {
    pub quality: [u8; 2],
}

impl JpegQuality {
    pub(in super::super) fn draw(&self, generator: &mut TorchGenerator) -> Operation {
        let [least, most] = self.quality;
        let qualities = u64::from(most.saturating_sub(least)) + 1;
        Operation::Jpeg { quality: least + generator.random_below(qualities) as u8 }
    }
}
