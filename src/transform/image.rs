//! [`Image`]: pixels, as they are decoded.

use crate::DType;

/// An image: `height` rows of `width` pixels of `channels` values each, nothing between them.
///
/// One channel is grey, two are grey and alpha, three are red, green and blue, four these and alpha.
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
    /// The image of these `pixels`; `dtype` is that of a value.
    ///
    /// # Panics
    /// When there are more or fewer bytes than such an image has.
    #[must_use]
    pub fn new(width: usize, height: usize, channels: usize, dtype: DType, pixels: Vec<u8>) -> Self {
        assert_eq!(pixels.len(), width * height * channels * dtype.bytes(), "the bytes of an image");
        Self { width, height, channels, dtype, pixels }
    }

    /// The width, in pixels.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The height, in pixels.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of values of a pixel.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The data type of a value: `uint8`, or `uint16` where so much is stored.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Height, width, channels.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        [self.height, self.width, self.channels]
    }

    /// The bytes of the pixels, row by row, in the machine's byte order.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The same pixels, for whoever takes them.
    #[must_use]
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }

    /// Writes the image channel by channel, as torch has it: all of the first one, then all of the second.
    ///
    /// # Panics
    /// When `into` has another size.
    pub fn write_channels_first(&self, into: &mut [u8]) {
        assert_eq!(into.len(), self.pixels.len(), "room for the image");
        match self.dtype.bytes() {
            1 => planes::<1>(&self.pixels, self.channels, into),
            _ => planes::<2>(&self.pixels, self.channels, into),
        }
    }

    /// The bytes of the image channel by channel.
    #[must_use]
    pub fn channels_first(&self) -> Vec<u8> {
        let mut planes = vec![0; self.pixels.len()];
        self.write_channels_first(&mut planes);
        planes
    }
}

/// Values of `BYTES` bytes, taken apart by channel.
fn planes<const BYTES: usize>(pixels: &[u8], channels: usize, into: &mut [u8]) {
    match channels {
        1 => into.copy_from_slice(pixels),
        2 => planes_of::<BYTES, 2>(pixels, into),
        3 => planes_of::<BYTES, 3>(pixels, into),
        _ => planes_of::<BYTES, 4>(pixels, into),
    }
}

/// With both known when it is compiled, eight pixels and more are taken apart at a time.
fn planes_of<const BYTES: usize, const CHANNELS: usize>(pixels: &[u8], into: &mut [u8]) {
    let plane = into.len() / CHANNELS;
    for (channel, into) in into.chunks_exact_mut(plane.max(1)).enumerate() {
        let values = pixels.chunks_exact(BYTES * CHANNELS);
        for (value, pixel) in into.chunks_exact_mut(BYTES).zip(values) {
            value.copy_from_slice(&pixel[channel * BYTES..(channel + 1) * BYTES]);
        }
    }
}
