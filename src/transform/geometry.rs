//! How an [`Operation`] moves pixels of any type.

use super::picture::Picture;
use super::pixels::affine_matrix::{Motion, frame};
use super::pixels::grid::Projection;
use super::pixels::pad::padded_size;
use super::pixels::resample::Resample;
use super::pixels::{crop, flip, pad, quarter_turn};
use super::{Frame, Operation, PaddingMode, Reason, pillow};

/// Degrees of a full circle.
const FULL: f64 = 360.0;

impl Operation {
    /// Returns the (height, width) of the result for an image of that size; 0 if nothing remains.
    ///
    /// # Example
    /// ```
    /// use sluicegate::internal::Operation;
    /// use sluicegate::{Frame, Interpolation};
    /// let operation = Operation::Rotate {
    ///     angle: 90.0,
    ///     interpolation: Interpolation::Nearest,
    ///     frame: Frame::Expanded,
    ///     center: None,
    ///     fill: vec![],
    /// };
    /// assert_eq!(operation.size_after(20, 30), (30, 20));
    /// ```
    #[must_use]
    pub fn size_after(&self, height: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Crop { height, width, .. } | Self::Resize { height, width, .. } => (*height, *width),
            Self::Pad { left, top, right, bottom, .. } => {
                let [height, width] = padded_size(height, width, [*left, *top, *right, *bottom]).unwrap_or([0, 0]);
                (height, width)
            }
            Self::Rotate { angle, frame: Frame::Expanded, center, .. } => match quarters(*angle, *center) {
                Some(0 | 2) => (height, width),
                Some(_) => (width, height),
                None => {
                    let matrix = Motion::turn(angle.rem_euclid(FULL)).backward(from_middle(*center, height, width));
                    let [height, width] = frame(&matrix, height, width);
                    (height, width)
                }
            },
            Self::OfPillow { operation, .. } => pillow::size_after(operation, height, width),
            _ => (height, width),
        }
    }

    /// True if it moves pixels.
    pub(super) fn moves_pixels(&self) -> bool {
        use Operation::{Affine, Crop, HorizontalFlip, Pad, Perspective, Resize, Rotate, VerticalFlip};
        matches!(
            self.unwrapped(),
            Crop { .. }
                | Resize { .. }
                | HorizontalFlip
                | VerticalFlip
                | Pad { .. }
                | Rotate { .. }
                | Affine { .. }
                | Perspective { .. }
        )
    }

    /// True if it affects only boxes.
    pub(super) fn is_of_boxes(&self) -> bool {
        use Operation::{BlankBoxes, ClampBoxes, ConvertBoxes, SanitizeBoxes};
        matches!(self, BlankBoxes { .. } | ClampBoxes | ConvertBoxes { .. } | SanitizeBoxes { .. })
    }

    /// Returns the motion of positions and its center, for `affine` and `rotate`.
    pub(super) fn motion(&self) -> Option<(Motion, Option<[f64; 2]>)> {
        match self {
            Self::Rotate { angle, center, .. } => Some((Motion::turn(*angle), *center)),
            Self::Affine { angle, translate, scale, shear, center, .. } => {
                Some((Motion { angle: *angle, translate: *translate, scale: *scale, shear: *shear }, *center))
            }
            _ => None,
        }
    }

    /// Returns the picture with its pixels moved, or the same one if the operation does not move them.
    pub(super) fn rearrange<T: Copy + Default>(
        &self,
        mut picture: Picture<T>,
        resample: &impl Resample<T>,
    ) -> Result<Picture<T>, Reason> {
        match self {
            Self::Crop { top, left, height, width } => return crop::crop(picture, [*top, *left], *height, *width),
            Self::Resize { height, width, interpolation, antialias }
                if (*height, *width) != (picture.height, picture.width) =>
            {
                return resample.resize(picture, [*height, *width], *interpolation, *antialias);
            }
            Self::HorizontalFlip => flip::horizontal(&mut picture),
            Self::VerticalFlip => flip::vertical(&mut picture),
            Self::Pad { left, top, right, bottom, fill, mode } => {
                if *mode != PaddingMode::Constant && fill.len() > 1 {
                    return Err(format!(
                        "padding by {mode:?} uses no fill color, but one of {} values was given",
                        fill.len()
                    ));
                }
                let fill = resample.color(fill, picture.channels)?;
                return pad::pad(&picture, [*left, *top, *right, *bottom], &fill, *mode);
            }
            Self::Rotate { angle, frame, center, interpolation, fill } => {
                let is_square = picture.height == picture.width;
                match quarters(*angle, *center) {
                    Some(0) => {}
                    Some(2) => {
                        flip::horizontal(&mut picture);
                        flip::vertical(&mut picture);
                    }
                    Some(1) if is_square || *frame == Frame::Expanded => return Ok(quarter_turn::left(&picture)),
                    Some(3) if is_square || *frame == Frame::Expanded => return Ok(quarter_turn::right(&picture)),
                    _ => {
                        let (projection, size) = self.source(&picture)?;
                        return resample.warp(&picture, &projection, size, *interpolation, fill);
                    }
                }
            }
            Self::Affine { interpolation, fill, .. } => {
                let (projection, size) = self.source(&picture)?;
                return resample.warp(&picture, &projection, size, *interpolation, fill);
            }
            Self::Perspective { coefficients, interpolation, fill } => {
                let size = [picture.height, picture.width];
                return resample.warp(&picture, &Projection::Perspective(*coefficients), size, *interpolation, fill);
            }
            Self::OfPillow { operation, .. } if operation.moves_pixels() => return Err(pillow::refuse_places()),
            _ => {}
        }
        Ok(picture)
    }

    /// Returns where each pixel of a rotated or warped picture comes from, and the height and width of the result.
    fn source<T>(&self, picture: &Picture<T>) -> Result<(Projection, [usize; 2]), Reason> {
        let (motion, center) = match self {
            // Normalized: -90 degrees would round differently from 270 where positions are halfway between pixels.
            Self::Rotate { angle, center, .. } => (Motion::turn(angle.rem_euclid(FULL)), *center),
            _ => self.motion().unwrap_or((Motion::turn(0.0), None)),
        };
        motion.check()?;
        let (height, width) = self.size_after(picture.height, picture.width);
        let matrix = motion.backward(from_middle(center, picture.height, picture.width));
        Ok((Projection::Affine(matrix), [height, width]))
    }
}

/// Returns `center` relative to the middle of the image, which is also the default.
pub(super) fn from_middle(center: Option<[f64; 2]>, height: usize, width: usize) -> [f64; 2] {
    center.map_or([0.0; 2], |[x, y]| [x - width as f64 * 0.5, y - height as f64 * 0.5])
}

/// Returns the number of quarter turns in `angle`, or None if it is not a multiple of 90 or `center` is not the middle.
fn quarters(angle: f64, center: Option<[f64; 2]>) -> Option<u8> {
    let angle = angle.rem_euclid(FULL);
    let quarters = [0.0, 90.0, 180.0, 270.0].iter().position(|&whole| whole == angle)?;
    if center.is_none() { u8::try_from(quarters).ok() } else { None }
}
