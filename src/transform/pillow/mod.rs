//! Pillow's operations on byte images, in gray or in color, bit for bit: rounding follows its source (13.0). The
//! rounding of sums of products depends on how Pillow was compiled, so compare a few values before relying on it.

mod affine;
mod blend;
mod colors;
mod enhance;
mod grayscale;
mod hue;
mod matrix;
mod tables;

use super::pixels::equalize;
use super::{Operation, Picture, Reason, Torchvision};

impl Operation {
    /// Returns the same step for a Pillow image, or itself if Pillow's values are those of tensors.
    ///
    /// # Errors
    /// The reason, if this crate does not reproduce Pillow's result.
    pub(super) fn for_pillow(self, version: Torchvision) -> Result<Self, Reason> {
        use Operation::{
            Affine, Autocontrast, Brightness, Contrast, Crop, Equalize, Grayscale, HorizontalFlip, Hue, Invert,
            OfPillow, Pad, PermuteChannels, Posterize, RepeatChannels, Resize, Rotate, Saturation, Sharpness, Solarize,
            VerticalFlip,
        };
        match self {
            Affine { .. }
            | Autocontrast
            | Brightness { .. }
            | Contrast { .. }
            | Grayscale { .. }
            | Hue { .. }
            | Rotate { .. }
            | Saturation { .. }
            | Sharpness { .. }
            | Solarize { .. } => Ok(OfPillow { version, operation: Box::new(self) }),
            Crop { .. }
            | Equalize
            | HorizontalFlip
            | Invert
            | OfPillow { .. }
            | Pad { .. }
            | PermuteChannels { .. }
            | Posterize { .. }
            | RepeatChannels { .. }
            | VerticalFlip => Ok(self),
            Resize { antialias, .. } if antialias.is_exact() => Ok(self),
            other => Err(format!("transform not supported for Pillow images: {other:?}")),
        }
    }

    /// Returns the inner operation of a Pillow image's step, or the operation itself.
    pub(super) fn unwrapped(&self) -> &Self {
        match self {
            Self::OfPillow { operation, .. } => operation,
            operation => operation,
        }
    }
}

/// Returns the image after `operation`, as Pillow computes it.
pub(super) fn apply(
    operation: &Operation,
    version: Torchvision,
    mut picture: Picture<u8>,
) -> Result<Picture<u8>, Reason> {
    if ![1, 3].contains(&picture.channels) {
        return Err(format!("a Pillow image must have 1 or 3 channels here, got {}", picture.channels));
    }
    match operation {
        Operation::Autocontrast => tables::autocontrast(&mut picture),
        Operation::Brightness { factor } => enhance::brightness(&mut picture, *factor as f32),
        Operation::Contrast { factor } => enhance::contrast(&mut picture, *factor as f32),
        Operation::Equalize => equalize::bytes(&mut picture),
        Operation::Hue { factor } => hue::adjust(&mut picture, *factor)?,
        Operation::Saturation { factor } => enhance::saturation(&mut picture, *factor as f32),
        Operation::Sharpness { factor } => enhance::sharpness(&mut picture, *factor as f32),
        Operation::Solarize { threshold } => tables::solarize(&mut picture, *threshold),
        Operation::Grayscale { channels } => return grayscale::grayscale(picture, *channels),
        Operation::Rotate { .. } | Operation::Affine { .. } => return affine::warp(operation, version, picture),
        other => return other.apply_to_bytes(picture),
    }
    Ok(picture)
}

/// Returns why masks, boxes, and key points do not move with an image that is turned.
pub(super) fn refuse_places() -> Reason {
    "masks, boxes, and key points can't be rotated or warped with a Pillow image".into()
}

/// Returns the height and the width of an image of that size after `operation`.
pub(super) fn size_after(operation: &Operation, height: usize, width: usize) -> (usize, usize) {
    match operation {
        Operation::Rotate { .. } => matrix::turned_size(operation, [height, width]),
        other => other.size_after(height, width),
    }
}
