//! [`Part`]: the part of an image to resize.

use super::shares::Places;
use crate::memory::Region;

/// The part of an image to resize.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Part {
    /// These pixels, as if there were no others.
    Whole(Region),
    /// From `left` to `left + width`, and so on, in fractional pixels; surrounding pixels contribute to the edges.
    Fraction { left: f64, top: f64, width: f64, height: f64 },
}

impl Part {
    /// Returns the columns and the rows of an image of size `from` (width, height) that are resized, each counted from an
    /// offset.
    pub(super) fn places(self, from: [usize; 2]) -> [(usize, Places); 2] {
        match self {
            Self::Whole(Region { left, top, width, height }) => {
                let whole = |count| Places { count, start: 0.0, length: count as f64 };
                [(left, whole(width)), (top, whole(height))]
            }
            Self::Fraction { left, top, width, height } => [
                (0, Places { count: from[0], start: left, length: width }),
                (0, Places { count: from[1], start: top, length: height }),
            ],
        }
    }
}
