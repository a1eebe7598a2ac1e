//! `gaussian_blur`: first along the rows, then along the columns; the image is reflected at its edges.

use super::Reason;
use super::level::Level;
use super::picture::Picture;
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

/// Number of rows to add at a time, so that the sums are read and written only once for them.
const TAPS: usize = 4;

/// Returns the weights of `size` pixels, with torchvision's arithmetic.
fn weights(size: usize, sigma: f64) -> Vec<f32> {
    let limit = (size - 1) as f64 / (2.0 * std::f64::consts::SQRT_2);
    let step = if size > 1 { 2.0 * limit / (size - 1) as f64 } else { 0.0 };
    let exponent = |place: usize| -((place as f64 * step - limit) / sigma).powi(2);
    // The middle one is the largest: subtracting it keeps the sum positive however small the deviation is.
    let largest = exponent(size / 2);
    let bells: Vec<f64> = (0..size).map(|place| (exponent(place) - largest).exp()).collect();
    let sum: f64 = bells.iter().sum();
    bells.into_iter().map(|bell| (bell / sum) as f32).collect()
}

/// Returns the position in `0..length` that is mirrored to `place`, where 0 is `before` positions before the first.
fn mirrored(place: usize, before: usize, length: usize) -> usize {
    let place = place.abs_diff(before);
    if place < length { place } else { 2 * (length - 1) - place }
}

struct Blur<'a, T> {
    picture: &'a Picture<T>,
    blurred: &'a mut [T],
    across: &'a [f32],
    down: &'a [f32],
}

impl<T: Level> Kernel for Blur<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        let Picture { width, height, channels, .. } = *self.picture;
        let (row, side, above) = (self.picture.row(), self.across.len() / 2, self.down.len() / 2);
        let mut wide = vec![0.0_f32; row + 2 * side * channels];
        // A ring of horizontally blurred rows, as many as are summed: each replaces the row that is no longer needed.
        let mut lines = vec![0.0_f32; self.down.len() * row];
        let mut sums = vec![0.0_f32; row];
        let mut done = 0;
        for (y, into) in self.blurred.chunks_exact_mut(row).enumerate() {
            while done < height.min(y + above + 1) {
                let from = &self.picture.pixels[done * row..][..row];
                for (value, into) in from.iter().zip(&mut wide[side * channels..]) {
                    *into = value.to_float();
                }
                for place in (0..side).chain(side + width..width + 2 * side) {
                    let mirrored = mirrored(place, side, width) * channels;
                    for channel in 0..channels {
                        wide[place * channels + channel] = from[mirrored + channel].to_float();
                    }
                }
                let line = &mut lines[done % self.down.len() * row..][..row];
                sum_up::<M>(line, self.across, |tap| &wide[tap * channels..][..row]);
                done += 1;
            }
            sum_up::<M>(&mut sums, self.down, |tap| {
                &lines[mirrored(y + tap, above, height) % self.down.len() * row..][..row]
            });
            for (value, sum) in into.iter_mut().zip(&sums) {
                *value = T::rounded(*sum);
            }
        }
    }
}

/// Sets `sums` to the weighted sum of rows.
#[inline(always)]
fn sum_up<'a, M: MultiplyAdd>(sums: &mut [f32], weights: &[f32], row: impl Fn(usize) -> &'a [f32]) {
    sums.fill(0.0);
    let (fours, rest) = weights.as_chunks::<TAPS>();
    for (at, weights) in fours.iter().enumerate() {
        add::<M, TAPS>(sums, weights, std::array::from_fn(|tap| row(at * TAPS + tap)));
    }
    for (at, weight) in rest.iter().enumerate() {
        add::<M, 1>(sums, &[*weight], [row(fours.len() * TAPS + at)]);
    }
}

#[inline(always)]
fn add<M: MultiplyAdd, const COUNT: usize>(sums: &mut [f32], weights: &[f32; COUNT], rows: [&[f32]; COUNT]) {
    let rows = rows.map(|row| &row[..sums.len()]);
    for at in 0..sums.len() {
        let mut sum = sums[at];
        for tap in 0..COUNT {
            sum = M::multiply_add(rows[tap][at], weights[tap], sum);
        }
        sums[at] = sum;
    }
}

pub(in super::super) fn blur<T: Level>(
    picture: &mut Picture<T>,
    kernel_size: [usize; 2],
    sigma: [f64; 2],
) -> Result<(), Reason> {
    if kernel_size.iter().any(|size| size % 2 == 0) {
        return Err(format!("the kernel sizes must be odd, got {kernel_size:?}"));
    }
    if sigma.iter().any(|&sigma| sigma.is_nan() || sigma <= 0.0) {
        return Err(format!("sigma must be positive, got {sigma:?}"));
    }
    if picture.pixels.is_empty() {
        return Ok(());
    }
    let [across, down] = kernel_size;
    if across / 2 >= picture.width || down / 2 >= picture.height {
        return Err(format!(
            "an image of {} x {} pixels is too small for a kernel of {across} x {down}: half the kernel must be \
             smaller than the image",
            picture.width, picture.height
        ));
    }
    let mut blurred = vec![T::default(); picture.pixels.len()];
    let (across, down) = (weights(across, sigma[0]), weights(down, sigma[1]));
    run_on_vectors(Blur { picture, blurred: &mut blurred, across: &across, down: &down });
    picture.pixels = blurred;
    Ok(())
}
