//! `invert`.

use super::level::Level;
use super::picture::Picture;
use super::values::{OfValue, map};
use crate::memory::MultiplyAdd;

struct Invert {
    most: f32,
}

impl OfValue for Invert {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32 {
        self.most - value
    }
}

/// Swaps light and dark. Floats may be outside 0..1: nothing is clamped.
pub(in super::super) fn invert<T: Level>(picture: &mut Picture<T>) {
    map(&mut picture.pixels, Invert { most: T::MOST });
}
