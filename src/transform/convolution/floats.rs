//! [`resize_floats`]: resizes an image of floats.

use super::part::Part;
use super::shares::{Places, ShareOf, Shares};
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};
use crate::transform::operation::{Antialias, Interpolation};
use crate::transform::picture::Picture;

/// Returns `part` of `picture` in size `to` (width, height): first resizes the rows to the new width, then the columns
/// to the new height, as torch does, whose values differ in the last bits.
pub(crate) fn resize_floats(
    picture: &Picture<f32>,
    part: Part,
    to: [usize; 2],
    filter: (Interpolation, Antialias),
) -> Picture<f32> {
    let [(left, columns), (top, rows)] = part.places([picture.width, picture.height]);
    let shares = |places: Places, to: usize| match places.kept_in(to) {
        Some(first) => Shares::kept(first, to),
        None => Shares::new(&ShareOf::smooth(places, to, filter), 0..to),
    };
    let (across, down) = ((left, shares(columns, to[0])), (top, shares(rows, to[1])));
    let pixels = match picture.channels {
        1 => run_on_vectors(Resize::<1> { picture, across, down }),
        2 => run_on_vectors(Resize::<2> { picture, across, down }),
        3 => run_on_vectors(Resize::<3> { picture, across, down }),
        _ => run_on_vectors(Resize::<4> { picture, across, down }),
    };
    Picture::new(to[0], to[1], picture.channels, pixels)
}

/// The shares of each direction are those of positions from an offset on.
struct Resize<'a, const CHANNELS: usize> {
    picture: &'a Picture<f32>,
    across: (usize, Shares),
    down: (usize, Shares),
}

impl<const CHANNELS: usize> Kernel for Resize<'_, CHANNELS> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) -> Vec<f32> {
        let Self { picture, across: (left, across), down: (top, down) } = self;
        let line = across.runs().len() * CHANNELS;
        let (first, count) = down.all();
        let mut wide = vec![0.0; line * count];
        for (row, into) in wide.chunks_exact_mut(line.max(1)).enumerate() {
            let row = &picture.pixels[(top + first + row) * picture.row()..][..picture.row()];
            let pixels = &row.as_chunks::<CHANNELS>().0[left..];
            for ((start, shares), into) in across.runs().zip(into.as_chunks_mut::<CHANNELS>().0) {
                let mut sums = [0.0; CHANNELS];
                for (pixel, &share) in pixels[start..].iter().zip(shares) {
                    for channel in 0..CHANNELS {
                        sums[channel] = M::multiply_add(pixel[channel], share as f32, sums[channel]);
                    }
                }
                *into = sums;
            }
        }
        let mut pixels = vec![0.0; line * down.runs().len()];
        for ((start, shares), sums) in down.runs().zip(pixels.chunks_exact_mut(line.max(1))) {
            for (row, &share) in wide[(start - first) * line..].chunks_exact(line.max(1)).zip(shares) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum = M::multiply_add(*value, share as f32, *sum);
                }
            }
        }
        pixels
    }
}
