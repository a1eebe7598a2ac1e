//! [`Part`]: the part of an image to resize.

use super::resize_shares::Places;
use crate::memory::Region;

/// The part of an image to resize.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// These pixels, as if there were no others.
    Whole(Region),
    /// From `left` to `left + width`, and so on, in fractional pixels; surrounding pixels contribute to the edges.
    Fraction { left: f64, top: f64, width: f64, height: f64 },
}

impl Part {
    /// Returns the columns (axis 0) or rows (axis 1) of an image of size `from` (width, height) that are resized, counted
    /// from an offset.
    pub(super) fn places(self, from: [usize; 2], axis: usize) -> (usize, Places) {
        match self {
            Self::Whole(Region { left, top, width, height }) => {
                let count = [width, height][axis];
                ([left, top][axis], Places { count, start: 0.0, length: count as f64 })
            }
            Self::Fraction { left, top, width, height } => {
                (0, Places { count: from[axis], start: [left, top][axis], length: [width, height][axis] })
            }
        }
    }
}
