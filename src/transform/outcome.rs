//! What is known about an image after transforms before anything is drawn: its size, channels, and data type.

use super::Reason;
use super::image_shape::ImageShape;
use super::image_transform::ImageTransform;
use super::operation::{Frame, Operation};
use super::pixels::pad::padded_size;
use super::resize_to::ResizeTo;
use crate::DType;

impl ImageShape {
    /// Updates the shape to the image after `operation`.
    pub(super) fn follow(&mut self, operation: &Operation) {
        (self.height, self.width) = operation.size_after(self.height, self.width);
        match operation.unwrapped() {
            Operation::Grayscale { channels } | Operation::RepeatChannels { channels } => self.channels = *channels,
            Operation::ToDtype { dtype, .. } => self.dtype = *dtype,
            _ => {}
        }
    }
}

impl ImageTransform {
    /// True if the transform draws random values; otherwise a generator does not advance.
    ///
    /// # Example
    /// ```
    /// use sluicegate::ImageTransform;
    /// assert!(ImageTransform::RandomVerticalFlip { p: 0.0 }.is_random());
    /// assert!(!ImageTransform::CenterCrop { size: [224, 224] }.is_random());
    /// ```
    #[must_use]
    pub fn is_random(&self) -> bool {
        match self {
            Self::Resize { .. }
            | Self::CenterCrop { .. }
            | Self::Pad { .. }
            | Self::Grayscale { .. }
            | Self::Normalize { .. }
            | Self::ToDtype { .. }
            | Self::Rgb
            | Self::ClampBoundingBoxes
            | Self::ConvertBoundingBoxFormat { .. }
            | Self::SanitizeBoundingBoxes { .. }
            | Self::ToImage => false,
            Self::Compose { transforms } | Self::OfPillow { transforms, .. } => transforms.iter().any(Self::is_random),
            _ => true,
        }
    }

    /// True if it may draw from Python's generator.
    pub(super) fn draws_from_python(&self) -> bool {
        match self {
            Self::RandomChoiceByPython { .. } | Self::RandomOrderByPython { .. } => true,
            Self::Compose { transforms }
            | Self::OfPillow { transforms, .. }
            | Self::RandomApply { transforms, .. }
            | Self::RandomChoice { transforms, .. }
            | Self::RandomOrder { transforms } => transforms.iter().any(Self::draws_from_python),
            _ => false,
        }
    }

    /// Returns the number of channels and the data type after the transform, for an image with these.
    ///
    /// # Errors
    /// The reason why images with such channels cannot be transformed this way.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{DType, ImageTransform, Values};
    /// let to_floats = ImageTransform::ToDtype { dtype: DType::Float32, values: Values::Scaled };
    /// assert_eq!(to_floats.output(3, DType::UInt8), Ok((3, DType::Float32)));
    /// let normalize = ImageTransform::Normalize { mean: vec![0.5], std: vec![0.5] };
    /// assert!(normalize.output(3, DType::UInt8).is_err());
    /// ```
    pub fn output(&self, channels: usize, dtype: DType) -> Result<(usize, DType), Reason> {
        match self {
            Self::Grayscale { num_output_channels } => Ok((*num_output_channels, dtype)),
            Self::ToDtype { dtype, .. } => Ok((channels, *dtype)),
            Self::Normalize { mean, std } => {
                let channels = broadcast(channels, mean.len().max(std.len()));
                check_normalize(mean, std, channels, dtype).map(|()| (channels, dtype))
            }
            Self::Rgb => Ok((broadcast(channels, 3), dtype)),
            Self::RandomChoice { transforms, .. } | Self::RandomChoiceByPython { transforms, .. } => {
                let mut outputs = transforms.iter().map(|each| each.output(channels, dtype));
                let first = outputs.next().unwrap_or(Ok((channels, dtype)))?;
                match outputs.all(|each| each == Ok(first)) {
                    true => Ok(first),
                    false => Err("the transforms of RandomChoice must result in equal channels and data types".into()),
                }
            }
            Self::RandomOrder { transforms } | Self::RandomOrderByPython { transforms } => {
                match transforms.iter().all(|each| each.output(channels, dtype) == Ok((channels, dtype))) {
                    true => Ok((channels, dtype)),
                    false => Err("RandomOrder can't contain a transform that changes channels or data type; put that \
                                  before or after it"
                        .into()),
                }
            }
            Self::Jpeg { .. } if dtype != DType::UInt8 || ![1, 3].contains(&channels) => {
                let name = dtype.name();
                Err(format!("JPEG needs a uint8 image with 1 or 3 channels, but this one has {channels} of {name}"))
            }
            Self::Compose { transforms } | Self::OfPillow { transforms, .. } => {
                transforms.iter().try_fold((channels, dtype), |(channels, dtype), each| each.output(channels, dtype))
            }
            Self::RandomApply { transforms, .. } => {
                let inside =
                    transforms.iter().try_fold((channels, dtype), |(own, kind), each| each.output(own, kind))?;
                if inside != (channels, dtype) {
                    let (own, kind) = inside;
                    return Err(format!(
                        "RandomApply may turn an image into {own} channels of {}, or leave {channels} channels of {}; \
                         both can't be in one batch",
                        kind.name(),
                        dtype.name()
                    ));
                }
                Ok(inside)
            }
            _ => Ok((channels, dtype)),
        }
    }

    /// True if images of all sizes keep their size.
    fn keeps_size(&self) -> bool {
        // No size in a transform's arguments can equal both of these.
        [[97, 101], [64, 48]].into_iter().all(|size| self.size_after(Some(size)) == Some(size))
    }

    /// Returns the height and the width after the transform, for an image with these, if they are known.
    fn size_after(&self, size: Option<[usize; 2]>) -> Option<[usize; 2]> {
        match self {
            Self::Resize { size: ResizeTo::Exact(exact), .. } => Some(*exact),
            Self::Resize { size: to, .. } => size.and_then(|size| to.of(size).ok()),
            Self::CenterCrop { size } | Self::RandomCrop { size, .. } | Self::RandomResizedCrop { size, .. } => {
                Some(*size)
            }
            Self::Pad { padding, .. } => size.and_then(|[height, width]| padded_size(height, width, *padding).ok()),
            Self::RandomRotation { frame: Frame::Expanded, .. }
            | Self::RandomResize { .. }
            | Self::RandomShortestSize { .. }
            | Self::RandomZoomOut { .. }
            | Self::RandomIoUCrop { .. }
            | Self::ScaleJitter { .. } => None,
            Self::Compose { transforms } | Self::OfPillow { transforms, .. } => {
                transforms.iter().fold(size, |size, each| each.size_after(size))
            }
            Self::RandomChoice { transforms, .. } | Self::RandomChoiceByPython { transforms, .. } => {
                let mut sizes = transforms.iter().map(|each| each.size_after(size));
                let first = sizes.next().unwrap_or(size);
                first.filter(|_| sizes.all(|each| each == first))
            }
            Self::RandomOrder { transforms } | Self::RandomOrderByPython { transforms } => {
                let mut others = transforms.iter().filter(|each| !each.keeps_size());
                match (others.next(), others.next()) {
                    (None, _) => size,
                    (Some(only), None) => only.size_after(size),
                    // The outcome depends on the order, which is drawn.
                    _ => None,
                }
            }
            Self::RandomApply { transforms, .. } => {
                let inside = transforms.iter().fold(size, |size, each| each.size_after(size));
                size.filter(|_| inside == size)
            }
            _ => size,
        }
    }
}

/// Returns the height and the width of every image of this size after `transforms`, or None if they are random.
pub(super) fn output_size(transforms: &[ImageTransform], size: [usize; 2]) -> Option<[usize; 2]> {
    let mut known = Some(size);
    for each in transforms {
        known = each.size_after(known);
    }
    known
}

/// Returns the number of channels after an operation that needs `wanted` of them: a gray image's channel is repeated.
fn broadcast(channels: usize, wanted: usize) -> usize {
    if channels == 1 { wanted.max(1) } else { channels }
}

/// Returns the height and the width of every image after `transforms`, whatever its original size, or None if they
/// depend on the image.
///
/// # Example
/// ```
/// use sluicegate::internal::fixed_size;
/// use sluicegate::ImageTransform;
/// let flip = ImageTransform::RandomHorizontalFlip { p: 0.5 };
/// assert_eq!(fixed_size(&[ImageTransform::CenterCrop { size: [224, 192] }, flip.clone()]), Some([224, 192]));
/// assert_eq!(fixed_size(&[flip]), None);
/// ```
#[must_use]
pub fn fixed_size(transforms: &[ImageTransform]) -> Option<[usize; 2]> {
    transforms.iter().fold(None, |size, each| each.size_after(size))
}

fn check_normalize(mean: &[f32], std: &[f32], channels: usize, dtype: DType) -> Result<(), Reason> {
    if !matches!(dtype, DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64) {
        return Err(format!("Normalize needs a float image, but this one is {}; put ToDtype before it", dtype.name()));
    }
    if std.contains(&0.0) {
        return Err("std: expected deviations other than 0".into());
    }
    if ![mean, std].iter().all(|values| [1, channels].contains(&values.len())) {
        return Err(format!(
            "Normalize has {} means and {} deviations, but the image has {channels} channels",
            mean.len(),
            std.len()
        ));
    }
    Ok(())
}
