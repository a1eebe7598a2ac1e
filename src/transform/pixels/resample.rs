//! [`Resample`]: computes pixels between pixels, by interpolation for images, and by the nearest pixel for masks.

use super::grid::Projection;
use super::level::Level;
use super::picture::Picture;
use super::{Reason, by_channel, color_fits, warp};
use crate::transform::convolution::Part;
use crate::transform::resize::{nearest, resize};
use crate::transform::{Antialias, Interpolation, MaskValue};

/// How to compute pixels between pixels.
pub(in super::super) trait Resample<T> {
    /// Returns the color that fills a pixel; an empty `fill` is black.
    fn color(&self, fill: &[f32], channels: usize) -> Result<Vec<T>, Reason>;

    /// Returns the picture of `size` (height, width) whose pixels come from the positions that `projection` returns.
    fn warp(
        &self,
        picture: &Picture<T>,
        projection: &Projection,
        size: [usize; 2],
        interpolation: Interpolation,
        fill: &[f32],
    ) -> Result<Picture<T>, Reason>;

    /// Resizes the whole picture.
    fn resize(
        &self,
        picture: Picture<T>,
        size: [usize; 2],
        interpolation: Interpolation,
        antialias: Antialias,
    ) -> Result<Picture<T>, Reason>;
}

/// Resamples images.
pub(in super::super) struct OfImages;

impl<T: Level> Resample<T> for OfImages {
    fn color(&self, fill: &[f32], channels: usize) -> Result<Vec<T>, Reason> {
        color_fits(fill, channels)?;
        Ok(by_channel(fill, channels).map(T::from_float).collect())
    }

    fn warp(
        &self,
        picture: &Picture<T>,
        projection: &Projection,
        size: [usize; 2],
        interpolation: Interpolation,
        fill: &[f32],
    ) -> Result<Picture<T>, Reason> {
        warp::warp(picture, projection, size, interpolation, fill)
    }

    fn resize(
        &self,
        picture: Picture<T>,
        [height, width]: [usize; 2],
        interpolation: Interpolation,
        antialias: Antialias,
    ) -> Result<Picture<T>, Reason> {
        resize(&picture, Part::Whole(picture.region()), [width, height], interpolation, antialias)
    }
}

/// Resamples masks: a value between two has no meaning, so the nearest one is used.
pub(in super::super) struct OfMasks;

/// Returns the single number with which a mask is filled.
fn only(fill: &[f32]) -> Result<f32, Reason> {
    match fill {
        [] => Ok(0.0),
        &[number] => Ok(number),
        _ => Err("the fill of a mask must be one number, because masks have no colors".into()),
    }
}

impl<T: MaskValue> Resample<T> for OfMasks {
    fn color(&self, fill: &[f32], channels: usize) -> Result<Vec<T>, Reason> {
        Ok(vec![T::of(only(fill)?); channels])
    }

    fn warp(
        &self,
        picture: &Picture<T>,
        projection: &Projection,
        size: [usize; 2],
        _: Interpolation,
        fill: &[f32],
    ) -> Result<Picture<T>, Reason> {
        warp::nearest(picture, projection, size, &vec![T::rounded(only(fill)?); picture.channels])
    }

    fn resize(
        &self,
        picture: Picture<T>,
        [height, width]: [usize; 2],
        interpolation: Interpolation,
        _: Antialias,
    ) -> Result<Picture<T>, Reason> {
        nearest(&picture, picture.region(), [width, height], interpolation)
    }
}
