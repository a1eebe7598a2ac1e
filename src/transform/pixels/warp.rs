//! `affine`, `rotate`, and `perspective`: pictures sampled at other positions, like `torch.nn.functional.grid_sample`.

use super::grid::{Grid, OUTSIDE, Projection};
use super::level::Level;
use super::picture::Picture;
use super::{Reason, by_channel, color_fits};
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};
use crate::transform::Interpolation;

/// Returns the picture of `height` x `width` pixels, each of which comes from the position that `projection` returns.
/// Positions outside the source get `fill`; without a `fill` they are black, and bilinear edges fade to black.
pub(in super::super) fn warp<T: Level>(
    picture: &Picture<T>,
    projection: &Projection,
    [height, width]: [usize; 2],
    interpolation: Interpolation,
    fill: &[f32],
) -> Result<Picture<T>, Reason> {
    color_fits(fill, picture.channels)?;
    match (interpolation, picture.channels) {
        (Interpolation::Nearest, _) => {
            let fill: Vec<T> = by_channel(fill, picture.channels).map(T::rounded).collect();
            nearest(picture, projection, [height, width], &fill)
        }
        (Interpolation::Bilinear, 1) => bilinear::<T, 1>(picture, projection, [height, width], fill),
        (Interpolation::Bilinear, 2) => bilinear::<T, 2>(picture, projection, [height, width], fill),
        (Interpolation::Bilinear, 3) => bilinear::<T, 3>(picture, projection, [height, width], fill),
        (Interpolation::Bilinear, 4) => bilinear::<T, 4>(picture, projection, [height, width], fill),
        (Interpolation::Bilinear, channels) => Err(format!("images may have at most 4 channels, got {channels}")),
        (other, _) => {
            Err(format!("images can be warped only with nearest or bilinear interpolation, not with {other:?}"))
        }
    }
}

/// Like `warp`, for pixels of any type, using the nearest pixel; `fill` has a value for each channel.
pub(in super::super) fn nearest<T: Copy + Default>(
    picture: &Picture<T>,
    projection: &Projection,
    [height, width]: [usize; 2],
    fill: &[T],
) -> Result<Picture<T>, Reason> {
    let mut pixels = picture.room(height, width)?;
    pixels.resize(height * width * picture.channels, T::default());
    let grid = Grid::new(picture, projection, [height, width])?;
    match picture.channels {
        1 => run_on_vectors(Nearest::<T, 1> { picture, grid, fill, pixels: &mut pixels }),
        2 => run_on_vectors(Nearest::<T, 2> { picture, grid, fill, pixels: &mut pixels }),
        3 => run_on_vectors(Nearest::<T, 3> { picture, grid, fill, pixels: &mut pixels }),
        4 => run_on_vectors(Nearest::<T, 4> { picture, grid, fill, pixels: &mut pixels }),
        channels => return Err(format!("images may have at most 4 channels, got {channels}")),
    }
    Ok(Picture::new(width, height, picture.channels, pixels))
}

fn bilinear<T: Level, const CHANNELS: usize>(
    picture: &Picture<T>,
    projection: &Projection,
    [height, width]: [usize; 2],
    fill: &[f32],
) -> Result<Picture<T>, Reason> {
    let mut pixels = picture.room(height, width)?;
    pixels.resize(height * width * picture.channels, T::default());
    let grid = Grid::new(picture, projection, [height, width])?;
    let color = fill.first().map(|first| std::array::from_fn(|channel| *fill.get(channel).unwrap_or(first)));
    run_on_vectors(Bilinear::<T, CHANNELS> { picture, grid, color, pixels: &mut pixels });
    Ok(Picture::new(width, height, CHANNELS, pixels))
}

struct Nearest<'a, T, const CHANNELS: usize> {
    picture: &'a Picture<T>,
    grid: Grid,
    fill: &'a [T],
    pixels: &'a mut [T],
}

impl<T: Copy + Default, const CHANNELS: usize> Kernel for Nearest<'_, T, CHANNELS> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        let ([height, width], [of_rows, of_columns]) = (self.grid.size, self.grid.of);
        let (mut columns, mut rows) = (vec![0.0; width], vec![0.0; width]);
        let mut places = vec![0_u32; width];
        let stride = self.picture.width as u32;
        let (from, into) = (self.picture.pixels.as_chunks::<CHANNELS>().0, self.pixels.as_chunks_mut::<CHANNELS>().0);
        let fill: [T; CHANNELS] = std::array::from_fn(|channel| self.fill[channel]);
        for (y, into) in into.chunks_exact_mut(width.max(1)).enumerate().take(height) {
            self.grid.row::<M>(y, &mut columns, &mut rows);
            let of =
                |row: f32, column: f32| (row as i32 as u32).wrapping_mul(stride).wrapping_add(column as i32 as u32);
            for ((place, column), row) in places.iter_mut().zip(&columns).zip(&rows) {
                let (column, row) = (column.round_ties_even(), row.round_ties_even());
                let is_inside = column >= 0.0 && column < of_columns && row >= 0.0 && row < of_rows;
                *place = if is_inside { of(row, column) } else { OUTSIDE };
            }
            for (pixel, &place) in into.iter_mut().zip(&places) {
                *pixel = from.get(place as usize).copied().unwrap_or(fill);
            }
        }
    }
}

struct Bilinear<'a, T, const CHANNELS: usize> {
    picture: &'a Picture<T>,
    grid: Grid,
    color: Option<[f32; CHANNELS]>,
    pixels: &'a mut [T],
}

impl<T: Level, const CHANNELS: usize> Kernel for Bilinear<'_, T, CHANNELS> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        let [height, width] = self.grid.size;
        let (mut columns, mut rows) = (vec![0.0; width], vec![0.0; width]);
        let mut places = vec![0_u32; width];
        let stride = self.picture.width as u32;
        let corners = Corners::<T, CHANNELS> { pixels: self.picture.pixels.as_chunks().0, width: self.picture.width };
        let [of_rows, of_columns] = self.grid.of;
        let into = self.pixels.as_chunks_mut::<CHANNELS>().0;
        for (y, into) in into.chunks_exact_mut(width.max(1)).enumerate().take(height) {
            self.grid.row::<M>(y, &mut columns, &mut rows);
            let of =
                |row: f32, column: f32| (row as i32 as u32).wrapping_mul(stride).wrapping_add(column as i32 as u32);
            for ((place, column), row) in places.iter_mut().zip(&columns).zip(&rows) {
                let (left, top) = (column.floor(), row.floor());
                let is_inside = left >= 0.0 && left + 1.0 < of_columns && top >= 0.0 && top + 1.0 < of_rows;
                *place = if is_inside { of(top, left) } else { OUTSIDE };
            }
            for (((pixel, &place), &column), &row) in into.iter_mut().zip(&places).zip(&columns).zip(&rows) {
                let (left, top) = (column.floor(), row.floor());
                let shares = [row - top, column - left];
                let (sums, share) = if place == OUTSIDE {
                    corners.at_edge::<M>([top, left], self.grid.of, shares)
                } else {
                    corners.inside::<M>(place as usize, shares)
                };
                let faded = |color: [f32; CHANNELS]| {
                    std::array::from_fn(|channel| (sums[channel] - color[channel]) * share + color[channel])
                };
                let sums = self.color.map_or(sums, faded);
                *pixel = sums.map(T::rounded);
            }
        }
    }
}

/// The four pixels around a position.
struct Corners<'a, T, const CHANNELS: usize> {
    pixels: &'a [[T; CHANNELS]],
    width: usize,
}

impl<T: Level, const CHANNELS: usize> Corners<'_, T, CHANNELS> {
    /// Returns their weighted mean if all four exist, and the total weight: one, except for rounding.
    #[inline(always)]
    fn inside<M: MultiplyAdd>(&self, first: usize, [lower, right]: [f32; 2]) -> ([f32; CHANNELS], f32) {
        let pair = |first: usize| self.pixels.get(first..).and_then(|rest| rest.first_chunk::<2>());
        let (Some([a, b]), Some([c, d])) = (pair(first), pair(first + self.width)) else {
            return ([0.0; CHANNELS], 0.0);
        };
        let of = shares(lower, right);
        let mean =
            std::array::from_fn(|channel| weighted::<M>([a, b, c, d].map(|pixel| pixel[channel].to_float()), of));
        (mean, weighted::<M>([1.0; 4], of))
    }

    /// Returns the weighted sum of those that exist, and their total weight.
    fn at_edge<M: MultiplyAdd>(
        &self,
        [top, left]: [f32; 2],
        [rows, columns]: [f32; 2],
        [lower, right]: [f32; 2],
    ) -> ([f32; CHANNELS], f32) {
        let places = [(top, left), (top, left + 1.0), (top + 1.0, left), (top + 1.0, left + 1.0)];
        let found = places.map(|(row, column)| {
            let is_inside = (0.0..rows).contains(&row) && (0.0..columns).contains(&column);
            is_inside.then(|| self.pixels[row as usize * self.width + column as usize])
        });
        // Far outside, a weight may be NaN: missing pixels get the weight 0.
        let mut of = shares(lower, right);
        for (share, pixel) in of.iter_mut().zip(&found) {
            *share = if pixel.is_some() { *share } else { 0.0 };
        }
        let sums = std::array::from_fn(|channel| {
            let values = found.map(|pixel| pixel.map_or(0.0, |pixel| pixel[channel].to_float()));
            weighted::<M>(values, of)
        });
        (sums, weighted::<M>([1.0; 4], of))
    }
}

/// Returns the weighted sum of four values, in the order in which torch's vectors add them.
#[inline(always)]
fn weighted<M: MultiplyAdd>([a, b, c, d]: [f32; 4], [of_a, of_b, of_c, of_d]: [f32; 4]) -> f32 {
    M::multiply_add(d, of_d, M::multiply_add(c, of_c, M::multiply_add(b, of_b, a * of_a)))
}

/// Returns the weights of four pixels by distance: two above the position and two below.
#[inline(always)]
fn shares(lower: f32, right: f32) -> [f32; 4] {
    let (left, upper) = (1.0 - right, 1.0 - lower);
    [left * upper, right * upper, left * lower, right * lower]
}
