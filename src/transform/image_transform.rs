//! [`ImageTransform`]: what is done to every image, before anything of it is drawn.

use serde::{Deserialize, Serialize};

use super::Reason;
use super::box_format::BoxFormat;
use super::operation::{Antialias, Frame, Interpolation, Operation, PaddingMode, Values, dtype_name};
use super::random::affine::{self, AffineRanges};
use super::random::{
    AugMix, GaussianNoise, JpegQuality, RandomPerspective, RandomResize, RandomShortestSize, RandomZoomOut, ScaleJitter,
};
use super::random::{augment, blur, color, crop, erase, gate, resize, resized_crop, rotation};
use super::resize_to::ResizeTo;
use crate::{DType, TorchGenerator};

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
    Compose {
        transforms: Vec<ImageTransform>,
    },
    RandomOrder {
        transforms: Vec<ImageTransform>,
    },
    RandomApply {
        transforms: Vec<ImageTransform>,
        p: f64,
    },
}

impl ImageTransform {
    /// Draws what is random about the transform of one image, appends the operations that it is `into`, and leaves in
    /// `shape` what the image is behind them.
    ///
    /// The draws are those that torchvision 0.29's class makes from torch's generator, in their order, so with the same
    /// state of it the same comes out, and it is left in the same place. (The aspect ratios of crops and erased parts are
    /// exponentials of what is drawn, here rounded correctly; torch's are one unit in the last place off one time in a hundred, which can
    /// move an edge by a pixel in one image of ten million.)
    ///
    /// # Errors
    /// In words, why such an image can't be transformed so.
    pub fn draw(
        &self,
        shape: &mut ImageShape,
        generator: &mut TorchGenerator,
        into: &mut Vec<Operation>,
    ) -> Result<(), Reason> {
        let before = into.len();
        match self {
            Self::Resize { size, interpolation, antialias } => {
                into.push(resize(shape, *size, *interpolation, *antialias)?);
            }
            Self::CenterCrop { size } => into.extend(crop::center(shape, *size)),
            Self::RandomCrop { size, padding, small_image, fill, padding_mode, draws } => {
                let around = (*padding, *small_image);
                crop::random(shape, (*size, *draws), around, (fill, *padding_mode), generator, into)?;
            }
            Self::RandomResizedCrop { size, scale, ratio, interpolation, antialias } => {
                into.push(resized_crop::draw(shape, *scale, *ratio, generator)?);
                let [height, width] = *size;
                into.push(Operation::Resize { height, width, interpolation: *interpolation, antialias: *antialias });
            }
            Self::RandomHorizontalFlip { p } => into.extend(gate(*p, generator).then_some(Operation::HorizontalFlip)),
            Self::RandomVerticalFlip { p } => into.extend(gate(*p, generator).then_some(Operation::VerticalFlip)),
            Self::Pad { padding, fill, padding_mode } => into.push(crop::pad(*padding, fill, *padding_mode)),
            Self::ColorJitter { brightness, contrast, saturation, hue } => {
                color::jitter([*brightness, *contrast, *saturation, *hue], generator, into)?;
            }
            Self::Grayscale { num_output_channels } => into.push(color::grayscale(*num_output_channels)?),
            Self::RandomGrayscale { p } => {
                if gate(*p, generator) {
                    into.push(color::grayscale(shape.channels)?);
                }
            }
            Self::GaussianBlur { kernel_size, sigma } => into.push(blur(*kernel_size, *sigma, generator)?),
            Self::RandomErasing { p, scale, ratio, value } => {
                if gate(*p, generator) {
                    into.extend(erase::draw(shape, *scale, *ratio, value, generator)?);
                }
            }
            Self::Normalize { mean, std } => {
                into.extend(color::broadcast(shape.channels, mean.len().max(std.len())));
                into.push(Operation::Normalize { mean: mean.clone(), std: std.clone() });
            }
            Self::ToDtype { dtype, values } => into.push(Operation::ToDtype { dtype: *dtype, values: *values }),
            Self::ToImage => {}
            Self::RandomRotation { degrees, interpolation, frame, center, fill } => {
                into.push(rotation(*degrees, (*interpolation, *frame), *center, fill, generator)?);
            }
            Self::RandomAffine { degrees, translate, scale, shear, interpolation, fill, center } => {
                let ranges = AffineRanges { degrees: *degrees, translate: *translate, scale: *scale, shear: *shear };
                into.push(affine::draw(shape, &ranges, (*interpolation, *center, fill), generator)?);
            }
            Self::TrivialAugmentWide { num_magnitude_bins, interpolation, fill } => {
                augment::trivial(shape, *num_magnitude_bins, (*interpolation, fill), generator, into)?;
            }
            Self::RandAugment { num_ops, magnitude, num_magnitude_bins, interpolation, fill } => {
                let strength = (*magnitude, *num_magnitude_bins);
                augment::rand(shape, *num_ops, strength, (*interpolation, fill), generator, into)?;
            }
            Self::AutoAugment { policy, interpolation, fill } => {
                augment::auto(shape, *policy, (*interpolation, fill), generator, into);
            }
            Self::RandomInvert { p } => into.extend(gate(*p, generator).then_some(Operation::Invert)),
            Self::RandomPosterize { bits, p } => {
                into.extend(gate(*p, generator).then_some(Operation::Posterize { bits: *bits }));
            }
            Self::RandomSolarize { threshold, p } => {
                into.extend(gate(*p, generator).then_some(Operation::Solarize { threshold: *threshold }));
            }
            Self::RandomAdjustSharpness { sharpness_factor: factor, p } => {
                into.extend(gate(*p, generator).then_some(Operation::Sharpness { factor: *factor }));
            }
            Self::RandomAutocontrast { p } => into.extend(gate(*p, generator).then_some(Operation::Autocontrast)),
            Self::RandomEqualize { p } => into.extend(gate(*p, generator).then_some(Operation::Equalize)),
            Self::RandomChannelPermutation => into.push(color::permutation(shape.channels, generator)?),
            Self::RandomPhotometricDistort { brightness, contrast, saturation, hue, p } => {
                let ranges = [*brightness, *contrast, *saturation, *hue];
                color::distort(shape.channels, ranges, *p, generator, into)?;
            }
            Self::Rgb => into.extend(color::broadcast(shape.channels, 3)),
            Self::RandomOrder { transforms } => {
                let order = color::permuted(transforms.len(), generator)?;
                return order.into_iter().try_for_each(|which| transforms[which].draw(shape, generator, into));
            }
            Self::RandomResize(size) => into.push(size.draw(shape, generator)?),
            Self::RandomShortestSize(size) => into.push(size.draw(shape, generator)?),
            Self::ScaleJitter(jitter) => into.push(jitter.draw(shape, generator)?),
            Self::RandomPerspective(perspective) => into.extend(perspective.draw(shape, generator)?),
            Self::AugMix(mix) => into.push(mix.draw(shape, generator)?),
            Self::GaussianNoise(noise) => into.push(noise.draw(shape, generator)?),
            Self::Jpeg(quality) => into.push(quality.draw(generator)),
            Self::ClampBoundingBoxes => into.push(Operation::ClampBoxes),
            Self::ConvertBoundingBoxFormat { format } => into.push(Operation::ConvertBoxes { format: *format }),
            Self::SanitizeBoundingBoxes { min_size, min_area } => {
                into.push(Operation::SanitizeBoxes { min_size: *min_size, min_area: *min_area });
            }
            Self::RandomZoomOut(zoom) => into.extend(zoom.draw(shape, generator)?),
            Self::Compose { transforms } => return draw_all(transforms, shape, generator, into),
            Self::RandomApply { transforms, p } => {
                return if gate(*p, generator) { draw_all(transforms, shape, generator, into) } else { Ok(()) };
            }
        }
        for operation in &into[before..] {
            shape.follow(operation);
        }
        Ok(())
    }
}

/// Draws one transform after the other, as [`ImageTransform::draw`].
pub(super) fn draw_all(
    transforms: &[ImageTransform],
    shape: &mut ImageShape,
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    transforms.iter().try_for_each(|transform| transform.draw(shape, generator, into))
}
