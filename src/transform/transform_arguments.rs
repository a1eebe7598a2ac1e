//! Arguments of [`ImageTransform`](super::ImageTransform) with only a few possible values.

use serde::{Deserialize, Serialize};

/// How [`RandomCrop`](crate::ImageTransform::RandomCrop) treats an image that is smaller than the crop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SmallImage {
    /// Return an error.
    #[default]
    #[serde(rename = "refused")]
    Refused,
    /// Pad it on both sides by the missing size: `pad_if_needed` of torchvision.
    #[serde(rename = "padded")]
    Padded,
}

/// The directions in which [`RandomCrop`](crate::ImageTransform::RandomCrop) draws a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CropDraws {
    /// Only those in which there is a choice.
    #[default]
    #[serde(rename = "needed")]
    Needed,
    /// Both, unless the image has the size of the crop: `torchvision.transforms` (v1).
    #[serde(rename = "both")]
    Both,
}

/// The values that [`RandomErasing`](crate::ImageTransform::RandomErasing) writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ErasingValue {
    /// One value for all channels, or one per channel.
    #[serde(rename = "color")]
    Color(Vec<f32>),
    /// A normal deviate for each value.
    #[serde(rename = "random")]
    Random,
}

/// The policies of [`AutoAugment`](crate::ImageTransform::AutoAugment), named after the data on which they were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names of data sets")]
pub enum AugmentPolicy {
    #[serde(rename = "imagenet")]
    ImageNet,
    #[serde(rename = "cifar10")]
    Cifar10,
    #[serde(rename = "svhn")]
    Svhn,
}
