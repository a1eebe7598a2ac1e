//! Arguments of [`ImageTransform`](super::ImageTransform) with only a few possible values.

use serde::{Deserialize, Serialize};

/// How [`RandomCrop`](crate::ImageTransform::RandomCrop) treats an image that is smaller than the crop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmallImage {
    /// Return an error.
    #[default]
    Refused,
    /// Pad it on both sides by the missing size: `pad_if_needed` of torchvision.
    Padded,
}

/// The directions in which [`RandomCrop`](crate::ImageTransform::RandomCrop) draws a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CropDraws {
    /// Only those in which there is a choice.
    #[default]
    Needed,
    /// Both, unless the image has the size of the crop: `torchvision.transforms` (v1).
    Both,
}

/// The values that [`RandomErasing`](crate::ImageTransform::RandomErasing) writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErasingValue {
    /// One value for all channels, or one per channel.
    Color(Vec<f32>),
    /// A normal deviate for each value.
    Random,
}

/// The policies of [`AutoAugment`](crate::ImageTransform::AutoAugment), named after the data on which they were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names of data sets")]
#[serde(rename_all = "lowercase")]
pub enum AugmentPolicy {
    ImageNet,
    Cifar10,
    Svhn,
}
