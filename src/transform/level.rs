//! [`Level`]: the value type of a channel.

use super::convolution::{ByteResize, Part, resize_floats};
use super::operation::{Antialias, Interpolation};
use super::picture::Picture;

/// Bytes from 0 to 255, or floats from 0 to 1, and torch's conversions between them.
pub(super) trait Level: Copy + Default + Send + Sync + 'static {
    /// The value of white.
    const MOST: f32;
    /// True if values below 0 or above white cannot occur.
    const IS_LIMITED: bool;
    /// The factor that converts a value to the range from 0 to 1.
    const TO_UNIT: f32;
    /// The factor for a value from 0 to 1, before its fractional part is discarded.
    const FROM_UNIT: f32;

    fn to_float(self) -> f32;

    /// Converts a float; for bytes, the fractional part is discarded and 256 becomes 0, as in torch's conversions.
    fn from_float(value: f32) -> Self;

    /// Rounds a float; for bytes, to the nearest integer, ties to even.
    fn rounded(value: f32) -> Self;

    /// For bytes, rounds to the nearest integer, ties to even; floats are unchanged.
    fn whole(value: f32) -> f32;

    /// Returns the gray value that colors are blended with: torchvision uses integers if images are bytes.
    fn gray(value: f32) -> f32;

    /// Returns `part` of `from`, smoothly resized to `size` (width, height); both must have pixels.
    fn resize(from: &Picture<Self>, part: Part, size: [usize; 2], filter: (Interpolation, Antialias)) -> Picture<Self>;
}

/// Adding this to a float with an absolute value below 4 million rounds it to an integer, in the lowest bits. Every
/// other vector conversion needs a check for numbers that are too large.
const POINT: f32 = 1.5 * (1 << 23) as f32;

impl Level for u8 {
    const MOST: f32 = 255.0;
    const IS_LIMITED: bool = true;
    const TO_UNIT: f32 = (1.0 / 255.0_f64) as f32;
    const FROM_UNIT: f32 = 255.999;

    #[inline(always)]
    fn to_float(self) -> f32 {
        self.into()
    }

    #[inline(always)]
    fn from_float(value: f32) -> Self {
        (value.trunc() + POINT).to_bits() as u8
    }

    #[inline(always)]
    fn rounded(value: f32) -> Self {
        (value + POINT).to_bits() as u8
    }

    #[inline(always)]
    fn whole(value: f32) -> f32 {
        value.round_ties_even()
    }

    #[inline(always)]
    fn gray(value: f32) -> f32 {
        value.floor()
    }

    fn resize(from: &Picture<Self>, part: Part, size: [usize; 2], filter: (Interpolation, Antialias)) -> Picture<Self> {
        ByteResize::smooth(from, part, size, filter)
    }
}

impl Level for f32 {
    const MOST: f32 = 1.0;
    const IS_LIMITED: bool = false;
    const TO_UNIT: f32 = 1.0;
    const FROM_UNIT: f32 = 1.0;

    #[inline(always)]
    fn to_float(self) -> f32 {
        self
    }

    #[inline(always)]
    fn from_float(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn rounded(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn whole(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn gray(value: f32) -> f32 {
        value
    }

    fn resize(from: &Picture<Self>, part: Part, size: [usize; 2], filter: (Interpolation, Antialias)) -> Picture<Self> {
        resize_floats(from, part, size, filter)
    }
}
