//! [`MaskValue`]: the value type of a mask.

/// The value type of a mask: `bool`, integers, or floats.
pub trait MaskValue: Copy + Default {
    /// Converts a number as padding does: for integers, the fractional part is discarded.
    fn of(number: f32) -> Self;

    /// Converts a number as rotated masks do: to the nearest integer, ties to even.
    fn rounded(number: f32) -> Self {
        Self::of(number.round_ties_even())
    }
}

impl MaskValue for bool {
    fn of(number: f32) -> Self {
        number != 0.0
    }
}

macro_rules! of_integers {
    ($($integer:ty),*) => {
        $(impl MaskValue for $integer {
            fn of(number: f32) -> Self {
                // 256 becomes 0 in bytes, as in torch.
                number as i64 as Self
            }
        })*
    };
}

of_integers!(u8, i8, i16, i32, i64);

macro_rules! of_floats {
    ($($float:ty),*) => {
        $(impl MaskValue for $float {
            fn of(number: f32) -> Self {
                number.into()
            }

            fn rounded(number: f32) -> Self {
                number.into()
            }
        })*
    };
}

of_floats!(f32, f64);
