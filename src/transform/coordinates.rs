//! [`Coordinates`]: the number type of box coordinates, and how torch rounds them.

use super::ProductRounding;

/// The number type of box coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coordinates {
    /// 32-bit floats.
    #[default]
    Single,
    /// 64-bit floats.
    Double,
    /// Integers: the fractional part is discarded after each step.
    Whole,
}

impl Coordinates {
    /// Returns the float type that torch uses in place of integers.
    pub(super) fn as_floats(self) -> Self {
        if self == Self::Whole { Self::Single } else { self }
    }

    /// Rounds a sum, difference, or product of such numbers; for integers it is exact.
    pub(super) fn round(self, number: f64) -> f64 {
        if self == Self::Single { f64::from(number as f32) } else { number }
    }

    /// Returns half of a number; for integers, rounded down.
    pub(super) fn half(self, number: f64) -> f64 {
        if self == Self::Whole { (number / 2.0).floor() } else { number / 2.0 }
    }

    /// Converts a float to this type.
    pub(super) fn cast(self, number: f64) -> f64 {
        match self {
            Self::Single => f64::from(number as f32),
            Self::Double => number,
            Self::Whole => f64::from(number as f32).trunc(),
        }
    }

    /// Returns `a x + b y + c`, rounded like torch's matrix product.
    pub(super) fn line(self, [a, b, c]: [f64; 3], [x, y]: [f64; 2]) -> f64 {
        let [of_a, of_b, of_c, of_x, of_y] = [a, b, c, x, y].map(|value| value as f32);
        match (self, ProductRounding::get()) {
            (Self::Double, ProductRounding::Fused) => y.mul_add(b, x * a) + c,
            (Self::Double, ProductRounding::Separate) => x * a + y * b + c,
            (_, ProductRounding::Fused) => f64::from(of_y.mul_add(of_b, of_x * of_a) + of_c),
            (_, ProductRounding::Separate) => f64::from(of_x * of_a + of_y * of_b + of_c),
        }
    }

    /// Returns a quotient of such numbers; integers are divided as floats.
    pub(super) fn ratio(self, above: f64, below: f64) -> f64 {
        match self {
            Self::Double => above / below,
            _ => f64::from(above as f32 / below as f32),
        }
    }
}
