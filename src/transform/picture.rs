//! [`Picture`]: pixels that operations are applied to.

use super::Reason;
use crate::memory::Region;

/// Consecutive rows of pixels with interleaved channels: bytes from 0 to 255, or floats from 0 to 1.
///
/// # Example
/// ```
/// use sluicegate::internal::{AnyPicture, Operation, Picture};
/// let picture = AnyPicture::Bytes(Picture::new(2, 1, 1, vec![10_u8, 250]));
/// let AnyPicture::Bytes(darker) = Operation::Brightness { factor: 0.5 }.apply(picture)? else { unreachable!() };
/// assert_eq!((darker.width(), darker.height(), darker.channels(), darker.pixels()), (2, 1, 1, &[5, 125][..]));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Picture<T> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    pub(super) pixels: Vec<T>,
}

/// Pixels of either type.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyPicture {
    /// Bytes, from 0 to 255.
    Bytes(Picture<u8>),
    /// Floats, from 0 to 1 unless an operation made them larger or smaller.
    Floats(Picture<f32>),
}

impl<T> Picture<T> {
    /// Returns the picture of these `pixels`.
    ///
    /// # Panics
    /// If the number of values does not match the other arguments.
    #[must_use]
    pub fn new(width: usize, height: usize, channels: usize, pixels: Vec<T>) -> Self {
        assert_eq!(pixels.len(), width * height * channels, "the values of a picture");
        Self { width, height, channels, pixels }
    }

    /// Returns the width in pixels.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the height in pixels.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of values per pixel.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the values, row by row and pixel by pixel.
    #[must_use]
    pub fn pixels(&self) -> &[T] {
        &self.pixels
    }

    /// Returns the same values as an owned vector.
    #[must_use]
    pub fn into_pixels(self) -> Vec<T> {
        self.pixels
    }

    /// Returns the region of the whole picture.
    pub(super) fn region(&self) -> Region {
        Region { left: 0, top: 0, width: self.width, height: self.height }
    }

    /// Returns the number of values per row.
    pub(super) fn row(&self) -> usize {
        self.width * self.channels
    }

    /// Allocates room for a picture with the same channels and a different size.
    pub(super) fn room(&self, height: usize, width: usize) -> Result<Vec<T>, Reason> {
        let refuse = || format!("no memory for an image of {width} x {height} pixels");
        let values = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(self.channels));
        let mut room = Vec::new();
        room.try_reserve_exact(values.ok_or_else(refuse)?).map_err(|_| refuse())?;
        Ok(room)
    }
}

impl AnyPicture {
    /// Returns a picture without pixels, to replace one that was taken.
    pub(super) fn empty() -> Self {
        Self::Bytes(Picture { width: 0, height: 0, channels: 1, pixels: Vec::new() })
    }

    pub(super) fn channels(&self) -> usize {
        match self {
            Self::Bytes(picture) => picture.channels,
            Self::Floats(picture) => picture.channels,
        }
    }

    /// Returns the region of the whole picture.
    pub(super) fn region(&self) -> Region {
        match self {
            Self::Bytes(picture) => picture.region(),
            Self::Floats(picture) => picture.region(),
        }
    }
}
