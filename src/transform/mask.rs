//! [`Operation::apply_to_mask`]: moves masks, which assign a class or object to each pixel.

use super::pixels::resample::OfMasks;
use super::{Operation, Picture, Reason};

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

impl Operation {
    /// Returns the mask whose values have moved as this step moves pixels, like torchvision's functions: the nearest
    /// value is used, and color operations do not change masks. The outside is the operation's `fill`, or 0.
    ///
    /// # Errors
    /// A text, where torchvision raises: for a `fill` of several channels.
    ///
    /// # Example
    /// ```
    /// use sluicegate::{Operation, Picture};
    /// let mask = Picture::new(2, 1, 1, vec![7_i64, 300]);
    /// let crop = Operation::Crop { top: 0, left: 1, height: 1, width: 2 };
    /// assert_eq!(crop.apply_to_mask(mask)?.pixels(), [300, 0]);
    /// # Ok::<(), String>(())
    /// ```
    pub fn apply_to_mask<T: MaskValue>(&self, mask: Picture<T>) -> Result<Picture<T>, Reason> {
        self.rearrange(mask, &OfMasks)
    }
}
