//! `affine` and `rotate`: a picture whose pixels come from other places, as `torch.nn.functional.grid_sample` takes them.

use super::affine_matrix::Matrix;
use super::level::Level;
use super::picture::Picture;
use super::{Reason, colour_fits};
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};
use crate::transform::Interpolation;

/// The picture of `height` x `width` pixels, each of which comes from where `matrix` says, about the middles of both. Where
/// nothing is, `fill` is; no `fill` is black, into which bilinear edges fade.
pub(in super::super) fn warp<T: Level>(
    picture: &Picture<T>,
    matrix: &Matrix,
    [height, width]: [usize; 2],
    interpolation: Interpolation,
    fill: &[f32],
) -> Result<Picture<T>, Reason> {
    colour_fits(fill, picture.channels)?;
    match (interpolation, picture.channels) {
        (Interpolation::Nearest, _) => {
            let fill: Vec<T> = (0..picture.channels)
                .map(|channel| T::rounded(fill.get(channel).or(fill.first()).copied().unwrap_or(0.0)))
                .collect();
            nearest(picture, matrix, [height, width], &fill)
        }
        (Interpolation::Bilinear, 1) => bilinear::<T, 1>(picture, matrix, [height, width], fill),
        (Interpolation::Bilinear, 2) => bilinear::<T, 2>(picture, matrix, [height, width], fill),
        (Interpolation::Bilinear, 3) => bilinear::<T, 3>(picture, matrix, [height, width], fill),
        (Interpolation::Bilinear, 4) => bilinear::<T, 4>(picture, matrix, [height, width], fill),
        (Interpolation::Bilinear, channels) => {
            Err(format!("images have at most 4 channels, but this one has {channels}"))
        }
        (other, _) => Err(format!("images are turned by nearest or bilinear interpolation, and not by {other:?}")),
    }
}

/// The same for pixels of any kind, with the nearest one; `fill` has a value for each channel.
pub(in super::super) fn nearest<T: Copy + Default>(
    picture: &Picture<T>,
    matrix: &Matrix,
    [height, width]: [usize; 2],
    fill: &[T],
) -> Result<Picture<T>, Reason> {
    let mut pixels = picture.room(height, width)?;
    pixels.resize(height * width * picture.channels, T::default());
    let grid = Grid::new(picture, matrix, [height, width])?;
    match picture.channels {
        1 => run_on_vectors(Nearest::<T, 1> { picture, grid, fill, pixels: &mut pixels }),
        2 => run_on_vectors(Nearest::<T, 2> { picture, grid, fill, pixels: &mut pixels }),
        3 => run_on_vectors(Nearest::<T, 3> { picture, grid, fill, pixels: &mut pixels }),
        4 => run_on_vectors(Nearest::<T, 4> { picture, grid, fill, pixels: &mut pixels }),
        channels => return Err(format!("images have at most 4 channels, but this one has {channels}")),
    }
    Ok(Picture::new(width, height, picture.channels, pixels))
}

fn bilinear<T: Level, const CHANNELS: usize>(
    picture: &Picture<T>,
    matrix: &Matrix,
    [height, width]: [usize; 2],
    fill: &[f32],
) -> Result<Picture<T>, Reason> {
    let mut pixels = picture.room(height, width)?;
    pixels.resize(height * width * picture.channels, T::default());
    let grid = Grid::new(picture, matrix, [height, width])?;
    let colour = fill.first().map(|first| std::array::from_fn(|channel| *fill.get(channel).unwrap_or(first)));
    run_on_vectors(Bilinear::<T, CHANNELS> { picture, grid, colour, pixels: &mut pixels });
    Ok(Picture::new(width, height, CHANNELS, pixels))
}

/// The place of no pixel.
const OUTSIDE: u32 = u32::MAX;

/// Where pixels come from, rounded as torch's single precision is: a grid from -1 to 1 is made of places first.
struct Grid {
    across: [f32; 3],
    down: [f32; 3],
    size: [usize; 2],
    of: [f32; 2],
}

impl Grid {
    fn new<T>(picture: &Picture<T>, matrix: &Matrix, size: [usize; 2]) -> Result<Self, Reason> {
        if picture.height.saturating_mul(picture.width) >= OUTSIDE as usize {
            return Err(format!("an image of {} x {} pixels is too large to be turned", picture.width, picture.height));
        }
        let [a, b, c, d, e, f] = matrix.map(|value| value as f32);
        let of = [picture.height as f32, picture.width as f32];
        let [half_height, half_width] = of.map(|length| 0.5 * length);
        Ok(Self { across: [a, b, c].map(|v| v / half_width), down: [d, e, f].map(|v| v / half_height), size, of })
    }

    /// The places of a row of pixels.
    #[inline(always)]
    fn row<M: MultiplyAdd>(&self, y: usize, columns: &mut [f32], rows: &mut [f32]) {
        let [height, width] = self.size.map(|length| (length as f32 - 1.0) * 0.5);
        let y = y as f32 - height;
        let [of_rows, of_columns] = self.of.map(|length| 0.5 * length);
        for (x, (column, row)) in columns.iter_mut().zip(rows).enumerate() {
            let x = x as u32 as f32 - width;
            let place = |[a, b, c]: [f32; 3]| M::multiply_add(y, b, x * a) + c;
            *column = M::multiply_add(place(self.across) + 1.0, of_columns, -0.5);
            *row = M::multiply_add(place(self.down) + 1.0, of_rows, -0.5);
        }
    }
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
    colour: Option<[f32; CHANNELS]>,
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
                let faded = |colour: [f32; CHANNELS]| {
                    std::array::from_fn(|channel| (sums[channel] - colour[channel]) * share + colour[channel])
                };
                let sums = self.colour.map_or(sums, faded);
                *pixel = sums.map(T::rounded);
            }
        }
    }
}

/// The four pixels around a place.
struct Corners<'a, T, const CHANNELS: usize> {
    pixels: &'a [[T; CHANNELS]],
    width: usize,
}

impl<T: Level, const CHANNELS: usize> Corners<'_, T, CHANNELS> {
    /// Their mean by how near they are, where there are four, and the share that they have: one, but for rounding.
    #[inline(always)]
    fn inside<M: MultiplyAdd>(&self, first: usize, [lower, right]: [f32; 2]) -> ([f32; CHANNELS], f32) {
        let pair = |first: usize| self.pixels.get(first..).and_then(|rest| rest.first_chunk::<2>());
        let (Some([a, b]), Some([c, d])) = (pair(first), pair(first + self.width)) else {
            return ([0.0; CHANNELS], 0.0);
        };
        let [of_a, of_b, of_c, of_d] = shares(lower, right);
        let mean = std::array::from_fn(|channel| {
            let [a, b, c, d] = [a, b, c, d].map(|pixel| pixel[channel].to_float());
            M::multiply_add(d, of_d, M::multiply_add(c, of_c, M::multiply_add(b, of_b, a * of_a)))
        });
        (mean, of_a + of_b + of_c + of_d)
    }

    /// The sum of those that there are, and the share that they have.
    fn at_edge<M: MultiplyAdd>(
        &self,
        [top, left]: [f32; 2],
        [rows, columns]: [f32; 2],
        [lower, right]: [f32; 2],
    ) -> ([f32; CHANNELS], f32) {
        let mut sums = [0.0; CHANNELS];
        let mut all = 0.0;
        let places = [(top, left), (top, left + 1.0), (top + 1.0, left), (top + 1.0, left + 1.0)];
        for ((row, column), share) in places.into_iter().zip(shares(lower, right)) {
            if (0.0..rows).contains(&row) && (0.0..columns).contains(&column) {
                let pixel = self.pixels[row as usize * self.width + column as usize];
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum = M::multiply_add(value.to_float(), share, *sum);
                }
                all += share;
            }
        }
        (sums, all)
    }
}

/// How near a place is to each of four pixels: two above it and two below.
#[inline(always)]
fn shares(lower: f32, right: f32) -> [f32; 4] {
    let (left, upper) = (1.0 - right, 1.0 - lower);
    [left * upper, right * upper, left * lower, right * lower]
}
