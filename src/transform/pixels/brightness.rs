//! `adjust_brightness`.

use super::level::Level;
use super::picture::Picture;
use super::values::{OfValue, map};
use super::{Reason, gray_or_colors, not_negative};
use crate::memory::MultiplyAdd;

struct Brightness {
    factor: f32,
    most: f32,
}

impl OfValue for Brightness {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32 {
        (value * self.factor).clamp(0.0, self.most)
    }
}

pub(in super::super) fn adjust<T: Level>(picture: &mut Picture<T>, factor: f64) -> Result<(), Reason> {
    not_negative("brightness", factor)?;
    gray_or_colors(picture.channels)?;
    map(&mut picture.pixels, Brightness { factor: factor as f32, most: T::MOST });
    Ok(())
}
