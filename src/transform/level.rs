//! [`Level`]: what a channel of a pixel is.

use super::resize::Resizable;

/// Bytes from 0 to 255, or floats from 0 to 1, and how torch makes one of the other.
pub(super) trait Level: Resizable {
    /// The value of white.
    const MOST: f32;
    /// Whether there are no values beyond 0 and white.
    const IS_LIMITED: bool;
    /// What a value is multiplied by to become one from 0 to 1.
    const TO_UNIT: f32;
    /// What a value from 0 to 1 is multiplied by before what comes after the point is left out.
    const FROM_UNIT: f32;

    fn to_float(self) -> f32;

    /// Of bytes what comes after the point is left out, and 256 is 0, as in torch's conversions.
    fn from_float(value: f32) -> Self;

    /// Of bytes the nearest one, and of two the even one.
    fn rounded(value: f32) -> Self;

    /// Of bytes the nearest whole number, and of two the even one.
    fn whole(value: f32) -> f32;

    /// What grey is before colours are mixed with it: torchvision takes whole numbers where images are bytes.
    fn grey(value: f32) -> f32;
}

/// Added to a float below 4 million, either side of 0, it rounds that, and leaves it as an integer in the lowest bits: what vectors
/// have no other instruction for that saves looking for numbers that are too large.
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
    fn grey(value: f32) -> f32 {
        value.floor()
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
    fn grey(value: f32) -> f32 {
        value
    }
}
