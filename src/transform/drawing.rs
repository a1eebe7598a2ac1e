//! [`ImageTransform::draw`]: draws the operations of a transform for one image.

use super::image_shape::ImageShape;
use super::image_transform::ImageTransform;
use super::operation::{Noise, Operation};
use super::random::affine::{self, AffineRanges};
use super::random::aug_mix::AugMix;
use super::random::random_iou_crop::RandomIoUCrop;
use super::random::{
    augment, blur, color, crop, erase, gate, gaussian_noise, jpeg, random_perspective, random_resize,
    random_shortest_size, resize, resized_crop, rotation, scale_jitter, zoom_out,
};
use super::{Boxes, Reason, Torchvision};
use crate::TorchGenerator;

const NO_PYTHON: &str = "it draws from Python's generator, which is not available here";

impl ImageTransform {
    /// Draws the random values of the transform for one image, appends its operations to `into`, and updates `shape` to
    /// the image after them.
    ///
    /// The draws are those that torchvision 0.29's class makes from torch's generator, in the same order, so the same
    /// generator state gives the same result, and ends in the same state. (The aspect ratios of crops and erased parts
    /// are exponentials of the drawn values, here correctly rounded; torch's differ in the last place one time in a
    /// hundred, which can move an edge by a pixel in one image of ten million.)
    ///
    /// # Errors
    /// The reason why such an image cannot be transformed this way; `RandomIoUCrop` needs boxes, which can be passed to
    /// an [`ImagePipeline`](super::ImagePipeline).
    #[doc(hidden)]
    pub fn draw(
        &self,
        shape: &mut ImageShape,
        generator: &mut TorchGenerator,
        into: &mut Vec<Operation>,
    ) -> Result<(), Reason> {
        self.draw_for(&mut Subject { shape, boxes: None, pillow: None }, generator, into)
    }

    fn draw_for(
        &self,
        subject: &mut Subject<'_>,
        generator: &mut TorchGenerator,
        into: &mut Vec<Operation>,
    ) -> Result<(), Reason> {
        let before = into.len();
        let (shape, version) = (&*subject.shape, subject.pillow.unwrap_or_default());
        match self {
            Self::Resize { size, interpolation, antialias } => {
                into.push(resize(shape, *size, *interpolation, *antialias)?);
            }
            Self::CenterCrop { size } => into.extend(crop::center(shape, *size)),
            Self::RandomCrop { size, padding, small_image, fill, padding_mode, draws } => {
                let around = (*padding, *small_image);
                crop::random(shape, (*size, *draws), around, (fill, *padding_mode), generator, into)?;
            }
            Self::RandomResizedCrop { size, scale, ratio, interpolation, antialias, log_ratio } => {
                into.push(resized_crop::draw(shape, *scale, (*ratio, *log_ratio), generator)?);
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
            Self::RandomErasing { p, scale, ratio, value, log_ratio } => {
                if gate(*p, generator) {
                    into.extend(erase::draw(shape, *scale, (*ratio, *log_ratio), value, generator)?);
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
                augment::trivial((shape, version), *num_magnitude_bins, (*interpolation, fill), generator, into)?;
            }
            Self::RandAugment { num_ops, magnitude, num_magnitude_bins, interpolation, fill } => {
                let strength = (*magnitude, *num_magnitude_bins);
                augment::rand((shape, version), *num_ops, strength, (*interpolation, fill), generator, into)?;
            }
            Self::AutoAugment { policy, interpolation, fill } => {
                augment::auto((shape, version), *policy, (*interpolation, fill), generator, into);
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
            Self::RandomChoice { transforms, p } => {
                if transforms.len() != p.len() || transforms.is_empty() {
                    return Err(format!(
                        "p: expected {} probabilities, one for each transform, got {}",
                        transforms.len(),
                        p.len()
                    ));
                }
                return transforms[generator.multinomial_f32(p)].draw_for(subject, generator, into);
            }
            Self::RandomOrder { transforms } => {
                let order = color::permuted(transforms.len(), generator)?;
                return order.into_iter().try_for_each(|which| transforms[which].draw_for(subject, generator, into));
            }
            Self::RandomChoiceByPython { transforms, cumulative } => {
                let python = generator.python().ok_or(NO_PYTHON)?;
                let chosen = match cumulative {
                    Some(cumulative) => python.weighted_choice(cumulative),
                    None => python.choice(transforms.len()),
                };
                let chosen = transforms.get(chosen).ok_or("RandomChoice: expected a weight for each transform")?;
                return chosen.draw_for(subject, generator, into);
            }
            Self::RandomOrderByPython { transforms } => {
                let order = generator.python().ok_or(NO_PYTHON)?.shuffled(transforms.len() as u32);
                return order.into_iter().try_for_each(|which| transforms[which].draw_for(subject, generator, into));
            }
            Self::RandomResize { min_size, max_size, interpolation, antialias } => {
                let how = (*interpolation, *antialias);
                into.push(random_resize::draw([*min_size, *max_size], how, shape, generator)?);
            }
            Self::RandomShortestSize { min_size, max_size, interpolation, antialias } => {
                let how = (*interpolation, *antialias);
                into.push(random_shortest_size::draw(min_size, *max_size, how, shape, generator)?);
            }
            Self::ScaleJitter { target_size, scale_range, interpolation, antialias } => {
                let how = (*interpolation, *antialias);
                into.push(scale_jitter::draw(*target_size, *scale_range, how, shape, generator)?);
            }
            Self::RandomPerspective { distortion_scale, p, interpolation, fill } => {
                let how = (*interpolation, &fill[..]);
                into.extend(random_perspective::draw(*p, *distortion_scale, how, shape, generator)?);
            }
            &Self::AugMix { severity, mixture_width, chain_depth, alpha, all_ops, interpolation, ref fill } => {
                let mix = AugMix { severity, mixture_width, chain_depth, alpha, all_ops, interpolation, fill };
                into.push(mix.draw(shape, generator)?);
            }
            Self::GaussianNoise { mean, sigma, clip } => {
                let limits = if *clip { Noise::Clipped } else { Noise::Free };
                into.push(gaussian_noise::draw(*mean, *sigma, limits, shape, generator)?);
            }
            Self::Jpeg { quality } => into.push(jpeg::draw(*quality, generator)),
            Self::ClampBoundingBoxes => into.push(Operation::ClampBoxes),
            Self::ConvertBoundingBoxFormat { format } => into.push(Operation::ConvertBoxes { format: *format }),
            Self::SanitizeBoundingBoxes { min_size, min_area } => {
                into.push(Operation::SanitizeBoxes { min_size: *min_size, min_area: *min_area });
            }
            Self::RandomZoomOut { fill, side_range, p } => {
                into.extend(zoom_out::draw(*p, *side_range, fill, shape, generator)?);
            }
            &Self::RandomIoUCrop {
                min_scale,
                max_scale,
                min_aspect_ratio,
                max_aspect_ratio,
                ref sampler_options,
                trials,
            } => {
                let (scales, ratios) = ([min_scale, max_scale], [min_aspect_ratio, max_aspect_ratio]);
                let crop = RandomIoUCrop { scales, ratios, sampler_options, trials };
                into.extend(crop.draw(shape, subject.boxes.as_ref(), generator)?.into_iter().flatten());
            }
            Self::Compose { transforms } => return subject.draw_all(transforms, generator, into),
            Self::OfPillow { version, transforms } => {
                let before = subject.pillow.replace(*version);
                let drawn = subject.draw_all(transforms, generator, into);
                subject.pillow = before;
                return drawn;
            }
            Self::RandomApply { transforms, p } => {
                return if gate(*p, generator) { subject.draw_all(transforms, generator, into) } else { Ok(()) };
            }
        }
        if let Some(version) = subject.pillow {
            let drawn = into.split_off(before);
            for operation in drawn {
                into.push(operation.for_pillow(version)?);
            }
        }
        into[before..].iter().try_for_each(|operation| subject.follow(operation))
    }
}

/// The image that values are drawn for, and its boxes, if they are known.
struct Subject<'a> {
    shape: &'a mut ImageShape,
    boxes: Option<Boxes>,
    /// The version of the transforms, if the image is a Pillow image.
    pillow: Option<Torchvision>,
}

impl Subject<'_> {
    /// Updates the subject to its state after `operation`.
    fn follow(&mut self, operation: &Operation) -> Result<(), Reason> {
        self.shape.follow(operation);
        self.boxes.as_mut().map_or(Ok(()), |boxes| operation.apply_to_boxes(boxes))
    }

    fn draw_all(
        &mut self,
        transforms: &[ImageTransform],
        generator: &mut TorchGenerator,
        into: &mut Vec<Operation>,
    ) -> Result<(), Reason> {
        transforms.iter().try_for_each(|transform| transform.draw_for(self, generator, into))
    }
}

/// Draws the transforms in order, like [`ImageTransform::draw`], for an image without boxes.
pub(super) fn draw_all(
    transforms: &[ImageTransform],
    shape: &mut ImageShape,
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    draw_with_boxes(transforms, (shape, None), generator, into)
}

/// Like `draw_all`, for an image with `boxes`, which some transforms use when drawing.
pub(super) fn draw_with_boxes(
    transforms: &[ImageTransform],
    (shape, boxes): (&mut ImageShape, Option<Boxes>),
    generator: &mut TorchGenerator,
    into: &mut Vec<Operation>,
) -> Result<(), Reason> {
    Subject { shape, boxes, pillow: None }.draw_all(transforms, generator, into)
}
