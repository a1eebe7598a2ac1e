//! [`Image`]: decoded pixels.

use crate::DType;

/// An image: `height` rows of `width` pixels with `channels` values each, without gaps.
///
/// One channel is gray, two are gray and alpha, three are red, green, and blue, four are these and alpha.
///
/// # Example
/// ```
/// use sluicegate::{DType, Image};
/// let image = Image::new(2, 1, 3, DType::UInt8, vec![255, 0, 0, 0, 0, 255]);
/// assert_eq!(image.shape(), [1, 2, 3]);
/// assert_eq!(image.channels_first(), [255, 0, 0, 0, 0, 255]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    channels: usize,
    dtype: DType,
    pixels: Vec<u8>,
}

impl Image {
    /// Returns the image of these `pixels`; `dtype` is the data type of a value.
    ///
    /// # Panics
    /// If the number of bytes does not match the other arguments.
    #[must_use]
    pub fn new(width: usize, height: usize, channels: usize, dtype: DType, pixels: Vec<u8>) -> Self {
        assert_eq!(pixels.len(), width * height * channels * dtype.bytes(), "the bytes of an image");
        Self { width, height, channels, dtype, pixels }
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

    /// Returns the data type of a value: `uint8`, or `uint16` if the stored depth requires it.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns height, width, channels.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        [self.height, self.width, self.channels]
    }

    /// Returns the bytes of the pixels, row by row, in the machine's byte order.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Returns the same pixels as an owned vector.
    #[must_use]
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }

    /// Writes the image channel by channel, like torch: all of the first one, then all of the second.
    ///
    /// # Panics
    /// If the size of `into` differs.
    pub fn write_channels_first(&self, into: &mut [u8]) {
        assert_eq!(into.len(), self.pixels.len(), "room for the image");
        match self.dtype.bytes() {
            1 => planes::<1>(&self.pixels, self.channels, into),
            _ => planes::<2>(&self.pixels, self.channels, into),
        }
    }

    /// Returns the bytes of the image channel by channel.
    #[must_use]
    pub fn channels_first(&self) -> Vec<u8> {
        let mut planes = vec![0; self.pixels.len()];
        self.write_channels_first(&mut planes);
        planes
    }
}

/// Splits values of `BYTES` bytes by channel.
fn planes<const BYTES: usize>(pixels: &[u8], channels: usize, into: &mut [u8]) {
    match channels {
        1 => into.copy_from_slice(pixels),
        2 => planes_of::<BYTES, 2>(pixels, into),
        3 => planes_of::<BYTES, 3>(pixels, into),
        _ => planes_of::<BYTES, 4>(pixels, into),
    }
}

/// Both are compile-time constants, so the compiler can split eight or more pixels at a time.
fn planes_of<const BYTES: usize, const CHANNELS: usize>(pixels: &[u8], into: &mut [u8]) {
    let plane = into.len() / CHANNELS;
    for (channel, into) in into.chunks_exact_mut(plane.max(1)).enumerate() {
        let values = pixels.chunks_exact(BYTES * CHANNELS);
        for (value, pixel) in into.chunks_exact_mut(BYTES).zip(values) {
            value.copy_from_slice(&pixel[channel * BYTES..(channel + 1) * BYTES]);
        }
    }
}
