//! [`ImageTransform`]: what is done to every image, before anything of it is drawn.

use serde::{Deserialize, Serialize};

use super::box_format::BoxFormat;
use super::operation::{Antialias, Frame, Interpolation, PaddingMode, Values, dtype_name};
use super::random::{
    AugMix, GaussianNoise, JpegQuality, RandomIoUCrop, RandomPerspective, RandomResize, RandomShortestSize,
    RandomZoomOut, ScaleJitter,
};
use super::resize_to::ResizeTo;
use super::torchvision::Torchvision;
use crate::DType;

/// What an image is before a transform, or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "lengths in pixels, channels, and the type of their values")]
pub struct ImageShape {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub dtype: DType,
}

/// What [`ImageTransform::RandomCrop`] does with an image that is smaller than the crop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SmallImage {
    /// It is an error.
    #[default]
    #[serde(rename = "refused")]
    Refused,
    /// It is padded on both sides by what is missing: `pad_if_needed` of torchvision.
    #[serde(rename = "padded")]
    Padded,
}

/// In which directions [`ImageTransform::RandomCrop`] draws a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CropDraws {
    /// In those in which there is a choice.
    #[default]
    #[serde(rename = "needed")]
    Needed,
    /// In both, unless the image has the size of the crop: `torchvision.transforms` (v1).
    #[serde(rename = "both")]
    Both,
}

/// What [`ImageTransform::RandomErasing`] writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ErasingValue {
    /// A value for all channels, or one for each.
    #[serde(rename = "colour")]
    Colour(Vec<f32>),
    /// A normal deviate for each value.
    #[serde(rename = "random")]
    Random,
}

/// The policies of [`ImageTransform::AutoAugment`], by the data that they were found on.
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

/// A transform of `torchvision.transforms.v2`, by its name there and with its arguments.
///
/// Sizes are (height, width), `padding` is (left, top, right, bottom), probabilities `p` go from 0 to 1; a pair is the
/// lower and the upper end of what is drawn. A `fill` has one value for all channels or one for each, and of the warps none
/// where torchvision's is `None`: then what is blended with the outside at an edge stays so.
///
/// # Example
/// ```
/// use sluicegate::{DType, ImageShape, ImageTransform, Operation, TorchGenerator};
///
/// let flip = ImageTransform::RandomHorizontalFlip { p: 0.5 };
/// let mut image = ImageShape { height: 480, width: 640, channels: 3, dtype: DType::UInt8 };
/// let mut operations = Vec::new();
/// flip.draw(&mut image, &mut TorchGenerator::new(0), &mut operations)?;
/// assert_eq!(operations, [Operation::HorizontalFlip]); // As `v2.RandomHorizontalFlip()` after `torch.manual_seed(0)`.
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the arguments are those of torchvision's classes")]
pub enum ImageTransform {
    Resize {
        size: ResizeTo,
        interpolation: Interpolation,
        antialias: Antialias,
    },
    CenterCrop {
        size: [usize; 2],
    },
    RandomCrop {
        size: [usize; 2],
        padding: Option<[i64; 4]>,
        small_image: SmallImage,
        fill: Vec<f32>,
        padding_mode: PaddingMode,
        #[serde(default)]
        draws: CropDraws,
    },
    RandomResizedCrop {
        size: [usize; 2],
        scale: [f64; 2],
        ratio: [f64; 2],
        interpolation: Interpolation,
        antialias: Antialias,
        /// What torch has for the logarithms of `ratio`: then the place is torch's even where its exponential is rounded
        /// otherwise, for which torch itself is asked where there is one.
        #[serde(default)]
        log_ratio: Option<[f64; 2]>,
    },
    RandomHorizontalFlip {
        p: f64,
    },
    RandomVerticalFlip {
        p: f64,
    },
    Pad {
        padding: [i64; 4],
        fill: Vec<f32>,
        padding_mode: PaddingMode,
    },
    ColorJitter {
        brightness: Option<[f64; 2]>,
        contrast: Option<[f64; 2]>,
        saturation: Option<[f64; 2]>,
        hue: Option<[f64; 2]>,
    },
    Grayscale {
        num_output_channels: usize,
    },
    RandomGrayscale {
        p: f64,
    },
    /// `kernel_size` is (horizontal, vertical).
    GaussianBlur {
        kernel_size: [usize; 2],
        sigma: [f64; 2],
    },
    RandomErasing {
        p: f64,
        scale: [f64; 2],
        ratio: [f64; 2],
        value: ErasingValue,
        /// As of `RandomResizedCrop`.
        #[serde(default)]
        log_ratio: Option<[f64; 2]>,
    },
    Normalize {
        mean: Vec<f32>,
        std: Vec<f32>,
    },
    ToDtype {
        #[serde(with = "dtype_name")]
        dtype: DType,
        values: Values,
    },
    /// Does nothing: images are images here.
    ToImage,
    RandomRotation {
        degrees: [f64; 2],
        interpolation: Interpolation,
        frame: Frame,
        center: Option<[f64; 2]>,
        fill: Vec<f32>,
    },
    /// `shear` is what is drawn for the horizontal and for the vertical one.
    RandomAffine {
        degrees: [f64; 2],
        translate: Option<[f64; 2]>,
        scale: Option<[f64; 2]>,
        shear: [Option<[f64; 2]>; 2],
        interpolation: Interpolation,
        fill: Vec<f32>,
        center: Option<[f64; 2]>,
    },
    TrivialAugmentWide {
        num_magnitude_bins: usize,
        interpolation: Interpolation,
        fill: Vec<f32>,
    },
    RandAugment {
        num_ops: usize,
        magnitude: usize,
        num_magnitude_bins: usize,
        interpolation: Interpolation,
        fill: Vec<f32>,
    },
    AutoAugment {
        policy: AugmentPolicy,
        interpolation: Interpolation,
        fill: Vec<f32>,
    },
    RandomInvert {
        p: f64,
    },
    RandomPosterize {
        bits: u32,
        p: f64,
    },
    RandomSolarize {
        threshold: f64,
        p: f64,
    },
    RandomAdjustSharpness {
        sharpness_factor: f64,
        p: f64,
    },
    RandomAutocontrast {
        p: f64,
    },
    RandomEqualize {
        p: f64,
    },
    RandomChannelPermutation,
    RandomResize(RandomResize),
    RandomShortestSize(RandomShortestSize),
    ScaleJitter(ScaleJitter),
    GaussianNoise(GaussianNoise),
    AugMix(AugMix),
    RandomPerspective(RandomPerspective),
    #[serde(rename = "JPEG")]
    Jpeg(JpegQuality),
    RandomPhotometricDistort {
        brightness: [f64; 2],
        contrast: [f64; 2],
        saturation: [f64; 2],
        hue: [f64; 2],
        p: f64,
    },
    /// Three channels, whether there was one or three.
    #[serde(rename = "RGB")]
    Rgb,
    /// Leaves pixels as they are, and ends boxes where the image does.
    ClampBoundingBoxes,
    /// Leaves pixels as they are, and gives boxes another format.
    ConvertBoundingBoxFormat {
        format: BoxFormat,
    },
    /// Leaves pixels as they are, and drops boxes.
    SanitizeBoundingBoxes {
        min_size: f64,
        min_area: f64,
    },
    RandomZoomOut(RandomZoomOut),
    RandomIoUCrop(RandomIoUCrop),
    Compose {
        transforms: Vec<ImageTransform>,
    },
    /// These done to an image of Pillow's: operations whose values differ from those for tensors have Pillow's.
    OfPillow {
        version: Torchvision,
        transforms: Vec<ImageTransform>,
    },
    /// `p` has a share for each.
    RandomChoice {
        transforms: Vec<ImageTransform>,
        p: Vec<f32>,
    },
    RandomOrder {
        transforms: Vec<ImageTransform>,
    },
    RandomApply {
        transforms: Vec<ImageTransform>,
        p: f64,
    },
}
