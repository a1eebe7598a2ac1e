//! `adjust_saturation`: blends away from the gray of each pixel, or toward it.

use std::marker::PhantomData;

use super::grayscale::luma;
use super::level::Level;
use super::picture::Picture;
use super::planes::{OfColors, Planes, map};
use super::{Reason, gray_or_colors, not_negative};
use crate::memory::MultiplyAdd;

struct Saturation<T> {
    factor: f32,
    others: f32,
    level: PhantomData<T>,
}

impl<T: Level> OfColors for Saturation<T> {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, [red, green, blue]: &mut Planes) {
        for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
            let gray = T::gray(luma::<M>(*r, *g, *b));
            for value in [r, g, b] {
                *value = M::multiply_add(gray, self.others, *value * self.factor).clamp(0.0, T::MOST);
            }
        }
    }
}

pub(in super::super) fn adjust<T: Level>(picture: &mut Picture<T>, factor: f64) -> Result<(), Reason> {
    not_negative("saturation", factor)?;
    gray_or_colors(picture.channels)?;
    if picture.channels == 3 {
        let (factor, others) = (factor as f32, (1.0 - factor) as f32);
        map(&mut picture.pixels, Saturation::<T> { factor, others, level: PhantomData });
    }
    Ok(())
}
