//! `adjust_sharpness`: blends away from a blur of 3 x 3 pixels, or toward it.

use super::level::Level;
use super::picture::Picture;
use super::values::{OfValue, map};
use super::{Reason, gray_or_colors, not_negative};
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

struct Sharpen<'a, T> {
    picture: &'a Picture<T>,
    sharpened: &'a mut [T],
    /// The factor by which the difference to the blur is added.
    share: f32,
}

impl<T: Level> Kernel for Sharpen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        let (row, step) = (self.picture.row(), self.picture.channels);
        let inner = step..row - step;
        let rows: Vec<&[T]> = self.picture.pixels.chunks_exact(row).collect();
        let mut columns = vec![0.0; row];
        for (rows, into) in rows.windows(3).zip(self.sharpened.chunks_exact_mut(row).skip(1)) {
            let values = rows[0].iter().zip(rows[1]).zip(rows[2]);
            for (column, ((above, at), below)) in columns.iter_mut().zip(values) {
                *column = above.to_float() + at.to_float() + below.to_float();
            }
            let sums = columns.iter().zip(&columns[step..]).zip(&columns[2 * step..]);
            let values = rows[1][inner.clone()].iter().zip(&mut into[inner.clone()]);
            for (((left, at), right), (value, into)) in sums.zip(values) {
                let value = value.to_float();
                // The weighted mean of nine pixels, where the middle one counts five times. Rounding it to an integer
                // never meets a tie, because it is a multiple of 1/13.
                let blurred = T::whole((left + at + right + 4.0 * value) * (1.0 / 13.0));
                *into = T::from_float(M::multiply_add(blurred - value, self.share, value).clamp(0.0, T::MOST));
            }
        }
    }
}

struct Limit {
    most: f32,
}

impl OfValue for Limit {
    #[inline(always)]
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32 {
        value.clamp(0.0, self.most)
    }
}

pub(in super::super) fn adjust<T: Level>(picture: &mut Picture<T>, factor: f64) -> Result<(), Reason> {
    not_negative("sharpness", factor)?;
    gray_or_colors(picture.channels)?;
    if picture.height <= 2 || picture.width <= 2 {
        return Ok(());
    }
    // Pixels without neighbors on every side are only clamped.
    let mut sharpened = picture.pixels.clone();
    map(&mut sharpened, Limit { most: T::MOST });
    run_on_vectors(Sharpen { picture, sharpened: &mut sharpened, share: (1.0 - factor) as f32 });
    picture.pixels = sharpened;
    Ok(())
}
