//! `adjust_contrast`: blends away from the mean gray, or toward it.

use super::grayscale::luma;
use super::level::Level;
use super::picture::Picture;
use super::planes::{BLOCK, load};
use super::values::{OfValue, map};
use super::{Reason, gray_or_colors, not_negative};
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

struct Contrast {
    factor: f32,
    others: f32,
    mean: f32,
    most: f32,
}

impl OfValue for Contrast {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32 {
        M::multiply_add(self.mean, self.others, value * self.factor).clamp(0.0, self.most)
    }
}

/// The sum of the gray values of color pixels.
struct GraySum<'a, T>(&'a [T]);

impl<T: Level> Kernel for GraySum<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) -> f64 {
        let mut planes = [[0.0; BLOCK]; 3];
        let mut sum = 0.0;
        for pixels in self.0.chunks(3 * BLOCK) {
            if pixels.len() < 3 * BLOCK {
                planes = [[0.0; BLOCK]; 3];
            }
            load(pixels, &mut planes);
            let mut grays = [0.0; 8];
            let [red, green, blue] = &planes;
            for ((red, green), blue) in
                red.as_chunks::<8>().0.iter().zip(green.as_chunks::<8>().0).zip(blue.as_chunks::<8>().0)
            {
                for lane in 0..8 {
                    grays[lane] += T::gray(luma::<M>(red[lane], green[lane], blue[lane]));
                }
            }
            sum += f64::from(grays.iter().sum::<f32>());
        }
        sum
    }
}

pub(in super::super) fn adjust<T: Level>(picture: &mut Picture<T>, factor: f64) -> Result<(), Reason> {
    not_negative("contrast", factor)?;
    gray_or_colors(picture.channels)?;
    let sum = match picture.channels {
        3 => run_on_vectors(GraySum(&picture.pixels)),
        _ => picture.pixels.chunks(256).map(|some| f64::from(some.iter().map(|v| v.to_float()).sum::<f32>())).sum(),
    };
    let mean = sum as f32 / (picture.width * picture.height) as f32;
    let contrast = Contrast { factor: factor as f32, others: (1.0 - factor) as f32, mean, most: T::MOST };
    map(&mut picture.pixels, contrast);
    Ok(())
}
