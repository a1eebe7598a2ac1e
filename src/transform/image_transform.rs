//! [`ImageTransform`]: a transform of every image, before its random values are drawn.

use serde::{Deserialize, Serialize};

use super::box_format::BoxFormat;
use super::operation::{Antialias, Frame, Interpolation, PaddingMode, Values, dtype_name};
use super::resize_to::ResizeTo;
use super::torchvision::Torchvision;
use super::transform_arguments::{AugmentPolicy, CropDraws, ErasingValue, SmallImage};
use crate::DType;

/// A transform of `torchvision.transforms.v2`, with its name and arguments.
///
/// Sizes are (height, width), `padding` is (left, top, right, bottom), probabilities `p` are from 0 to 1; a pair is the
/// lower and upper bound of a random value. A `fill` has one value for all channels or one per channel. For warps, an
/// empty `fill` means torchvision's `None`, with which bilinear edges fade to black less than with a `fill` of 0.
///
/// # Example
/// ```
/// use sluicegate::{ImagePipeline, ImageTransform, TorchGenerator};
///
/// let flip = ImagePipeline::new(vec![ImageTransform::RandomHorizontalFlip { p: 0.5 }]);
/// let image = flip.run(b"P5 2 1 255 \x07\x09", Some(&mut TorchGenerator::new(0)))?;
/// assert_eq!(image.to_bytes()?[..2], [9, 7]); // As `v2.RandomHorizontalFlip()` after `torch.manual_seed(0)`.
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
        /// Torch's values for the logarithms of `ratio`. With them, crops equal torch's even if its exponential rounds
        /// differently: where that matters, torch computes it, if it is available.
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
        /// As for `RandomResizedCrop`.
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
    /// Does nothing: every input is already an image.
    ToImage,
    RandomRotation {
        degrees: [f64; 2],
        interpolation: Interpolation,
        frame: Frame,
        center: Option<[f64; 2]>,
        fill: Vec<f32>,
    },
    /// `shear` has the ranges of the horizontal and the vertical shear.
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
    /// The shorter edge gets a length from `min_size` up to, but not including, `max_size` pixels.
    RandomResize {
        min_size: usize,
        max_size: usize,
        interpolation: Interpolation,
        antialias: Antialias,
    },
    /// The shorter edge gets a length of `min_size`, unless the longer edge would exceed `max_size`.
    RandomShortestSize {
        min_size: Vec<usize>,
        max_size: Option<usize>,
        interpolation: Interpolation,
        antialias: Antialias,
    },
    /// Fits the image into `target_size`, and scales it by a factor from `scale_range`.
    ///
    /// Source: Ghiasi et al., "Simple copy-paste is a strong data augmentation method for instance segmentation", CVPR
    /// 2021.
    ScaleJitter {
        target_size: [usize; 2],
        scale_range: [f64; 2],
        interpolation: Interpolation,
        antialias: Antialias,
    },
    /// Adds normal deviates with this `mean` and standard deviation `sigma`, in units of white, and clamps the sums to
    /// black and white if `clip` is set.
    GaussianNoise {
        mean: f64,
        sigma: f64,
        clip: bool,
    },
    /// Mixes the image with the results of `mixture_width` chains of operations, which use the first `severity` of
    /// ten strengths. A chain has `chain_depth` operations, or 1 to 3 if that is not positive.
    ///
    /// Source: Hendrycks et al., "AugMix: a simple data processing method to improve robustness and uncertainty", ICLR
    /// 2020.
    AugMix {
        severity: usize,
        mixture_width: usize,
        chain_depth: i64,
        alpha: f32,
        all_ops: bool,
        interpolation: Interpolation,
        fill: Vec<f32>,
    },
    /// With probability `p`, each corner moves inward by up to `distortion_scale` of half the edges.
    RandomPerspective {
        distortion_scale: f64,
        p: f64,
        interpolation: Interpolation,
        fill: Vec<f32>,
    },
    /// Encodes the image with a quality in the range `quality` (1 to 100, inclusive), and decodes it.
    #[serde(rename = "JPEG")]
    Jpeg {
        quality: [u8; 2],
    },
    RandomPhotometricDistort {
        brightness: [f64; 2],
        contrast: [f64; 2],
        saturation: [f64; 2],
        hue: [f64; 2],
        p: f64,
    },
    /// Converts one or three channels to three.
    #[serde(rename = "RGB")]
    Rgb,
    /// Keeps the pixels, and cuts boxes off at the edges of the image.
    ClampBoundingBoxes,
    /// Keeps the pixels, and converts boxes to another format.
    ConvertBoundingBoxFormat {
        format: BoxFormat,
    },
    /// Keeps the pixels, and drops boxes that are too small or extend past the image.
    SanitizeBoundingBoxes {
        min_size: f64,
        min_area: f64,
    },
    /// With probability `p`, puts the image at a random position in one whose edges are longer by a factor from
    /// `side_range`.
    ///
    /// Source: Liu et al., "SSD: Single shot multibox detector", ECCV 2016.
    RandomZoomOut {
        fill: Vec<f32>,
        side_range: [f64; 2],
        p: f64,
    },
    /// Draws parts of the image until one contains the center of a box and overlaps such a box enough.
    ///
    /// Source: Liu et al., "SSD: Single shot multibox detector", ECCV 2016.
    RandomIoUCrop {
        min_scale: f64,
        max_scale: f64,
        min_aspect_ratio: f64,
        max_aspect_ratio: f64,
        /// The minimum overlaps, one of which is drawn; 1 or more keeps the image as it is. At least one must be 1 or
        /// more: otherwise drawing would never end for an image without boxes.
        sampler_options: Vec<f64>,
        trials: usize,
    },
    Compose {
        transforms: Vec<ImageTransform>,
    },
    /// Applies these to a Pillow image: operations whose values differ between Pillow images and tensors use Pillow's.
    #[doc(hidden)]
    OfPillow {
        version: Torchvision,
        transforms: Vec<ImageTransform>,
    },
    /// `p` has a probability for each.
    RandomChoice {
        transforms: Vec<ImageTransform>,
        p: Vec<f32>,
    },
    RandomOrder {
        transforms: Vec<ImageTransform>,
    },
    /// `RandomChoice` of torchvision's v1, which draws from Python's generator: with the sums of the relative weights,
    /// one for each transform, or with equal ones.
    #[doc(hidden)]
    RandomChoiceByPython {
        transforms: Vec<ImageTransform>,
        cumulative: Option<Vec<f64>>,
    },
    /// `RandomOrder` of torchvision's v1, which draws from Python's generator.
    #[doc(hidden)]
    RandomOrderByPython {
        transforms: Vec<ImageTransform>,
    },
    RandomApply {
        transforms: Vec<ImageTransform>,
        p: f64,
    },
}
