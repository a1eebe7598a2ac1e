//! `JPEG`: the quality with which an image is encoded before it is decoded again.

use super::super::operation::Operation;
use crate::TorchGenerator;

/// Draws a quality from `least` to `most`.
pub(in super::super) fn draw([least, most]: [u8; 2], generator: &mut TorchGenerator) -> Operation {
    let qualities = u64::from(most.saturating_sub(least)) + 1;
    Operation::Jpeg { quality: least + generator.random_below(qualities) as u8 }
}
