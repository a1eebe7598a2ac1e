//! [`Operation::apply_to_mask`]: what says of each pixel what it belongs to.

use super::pixels::resample::OfMasks;
use super::{Operation, Picture, Reason};

/// What a mask has for each pixel: `bool`, integers, or floats.
pub trait MaskValue: Copy + Default {
    /// What a number is, as padding has it: of integers what comes after the point is left out.
    fn of(number: f32) -> Self;

    /// What a number is, as turned masks have it: the nearest integer, and of two the even one.
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
                // 256 is 0 in bytes, as in torch.
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
    /// The mask whose values have moved as this step moves pixels, as torchvision's functions do: of values the nearest one
    /// is taken, and colours leave them. What lies outside is the operation's `fill`, or 0.
    ///
    /// # Errors
    /// In words, where torchvision raises: a `fill` of several channels.
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
