//! [`Operation::apply_to_mask`]: moves masks, which assign a class or object to each pixel.

use super::pixels::resample::OfMasks;
use super::{MaskValue, Operation, Picture, Reason};

impl Operation {
    /// Returns the mask whose values have moved as this step moves pixels, like torchvision's functions: the nearest
    /// value is used, and color operations do not change masks. The outside is the operation's `fill`, or 0.
    ///
    /// # Errors
    /// The reason, in cases where torchvision raises: a `fill` of several channels.
    ///
    /// # Example
    /// ```
    /// use sluicegate::internal::{Operation, Picture};
    /// let mask = Picture::new(2, 1, 1, vec![7_i64, 300]);
    /// let crop = Operation::Crop { top: 0, left: 1, height: 1, width: 2 };
    /// assert_eq!(crop.apply_to_mask(mask)?.pixels(), [300, 0]);
    /// # Ok::<(), String>(())
    /// ```
    pub fn apply_to_mask<T: MaskValue>(&self, mask: Picture<T>) -> Result<Picture<T>, Reason> {
        self.rearrange(mask, &OfMasks)
    }
}
