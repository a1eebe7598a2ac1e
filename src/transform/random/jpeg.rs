//! [`JpegQuality`]: the quality with which an image is encoded before it is decoded again.

use serde::{Deserialize, Serialize};

use super::super::operation::Operation;
use crate::TorchGenerator;

/// `JPEG`: encodes the image with a quality in the range `quality` (1 to 100, inclusive), and decodes it.
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
