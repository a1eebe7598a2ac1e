//! [`warp`]: rotates and shears images like Pillow's `transform` and `rotate`.

use super::matrix::{Turn, place, turn};
use crate::transform::pixels::affine_matrix::Matrix;
use crate::transform::pixels::{by_channel, color_fits, flip, quarter_turn};
use crate::transform::{Interpolation, Operation, Picture, Reason, Torchvision};

/// Number of fractional bits of fixed-point numbers.
const FRACTION: u32 = 16;
/// Positions below this use fixed-point numbers.
const FIXED: f64 = 32768.0;

/// Returns the image after `operation`, which must be `Rotate` or `Affine`.
pub(super) fn warp(
    operation: &Operation,
    version: Torchvision,
    mut picture: Picture<u8>,
) -> Result<Picture<u8>, Reason> {
    let (Operation::Rotate { interpolation, fill, .. } | Operation::Affine { interpolation, fill, .. }) = operation
    else {
        return Ok(picture);
    };
    let (matrix, size) = match turn(operation, version, [picture.height, picture.width]) {
        Turn::Quarters(1) => return Ok(quarter_turn::left(&picture)),
        Turn::Quarters(3) => return Ok(quarter_turn::right(&picture)),
        Turn::Quarters(2) => {
            flip::horizontal(&mut picture);
            flip::vertical(&mut picture);
            return Ok(picture);
        }
        Turn::Quarters(_) => return Ok(picture),
        Turn::Warp(matrix, size) => (matrix, size),
    };
    if matrix.iter().any(|each| !each.is_finite()) {
        return Err("an image can't be transformed by a matrix that is not finite".into());
    }
    let [height, width] = size;
    color_fits(fill, picture.channels)?;
    let color: Vec<u8> = by_channel(fill, picture.channels).map(|value| value as u8).collect();
    let mut pixels = picture.room(height, width)?;
    let row = color.repeat(width);
    (0..height).for_each(|_| pixels.extend_from_slice(&row));
    let mut warped = Picture::new(width, height, picture.channels, pixels);
    match (interpolation, picture.channels) {
        (Interpolation::Nearest, 1) => nearest::<1>(&picture, &matrix, &mut warped),
        (Interpolation::Nearest, _) => nearest::<3>(&picture, &matrix, &mut warped),
        (Interpolation::Bilinear, 1) => bilinear::<1>(&picture, &matrix, &mut warped),
        (Interpolation::Bilinear, _) => bilinear::<3>(&picture, &matrix, &mut warped),
        (other, _) => return Err(format!("interpolation: expected nearest or bilinear, got {other:?}")),
    }
    Ok(warped)
}

/// Copies each pixel from the source pixel that contains its position. Like Pillow, this adds up positions step by
/// step, in one of three ways: for each axis separately, in fixed point, or in floats.
fn nearest<const CHANNELS: usize>(picture: &Picture<u8>, matrix: &Matrix, into: &mut Picture<u8>) {
    let &[a, b, c, d, e, f] = matrix;
    let (right, bottom) = (into.width as f64, into.height as f64);
    let is_fixed = |corner| place(matrix, corner).iter().all(|length| length.abs() < FIXED);
    if b == 0.0 && d == 0.0 {
        let columns: Vec<f64> = steps(c + a * 0.5, a).take(into.width).collect();
        let rows: Vec<f64> = steps(f + e * 0.5, e).take(into.height).collect();
        copy::<CHANNELS>(picture, into, |x, y| inside([columns[x], rows[y]], picture));
    } else if [[0.0, 0.0], [right, bottom], [0.0, bottom], [right, 0.0]].into_iter().all(is_fixed) {
        let fixed = |value: f64| (value * f64::from(1 << FRACTION) + 0.5).floor() as i32;
        let mut row = [fixed(c + a * 0.5 + b * 0.5), fixed(f + d * 0.5 + e * 0.5)];
        let [a, b, d, e] = [a, b, d, e].map(fixed);
        let mut at = row;
        copy::<CHANNELS>(picture, into, |x, _| {
            if x == 0 {
                at = row;
                row = [row[0].wrapping_add(b), row[1].wrapping_add(e)];
            }
            let found = at;
            at = [at[0].wrapping_add(a), at[1].wrapping_add(d)];
            // Positions left of the picture or above it wrap far beyond its end.
            Some(found.map(|at| (at >> FRACTION) as usize))
        });
    } else {
        let mut row = [c + b * 0.5 + a * 0.5, f + e * 0.5 + d * 0.5];
        let mut at = row;
        copy::<CHANNELS>(picture, into, |x, _| {
            if x == 0 {
                at = row;
                row = [row[0] + b, row[1] + e];
            }
            let found = at;
            at = [at[0] + a, at[1] + d];
            inside(found, picture)
        });
    }
}

/// Returns `first`, and then one more `step` each time, with each sum rounded.
fn steps(first: f64, step: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(first), move |at| Some(at + step))
}

/// Returns the pixel that contains a position, or None outside the picture.
fn inside([x, y]: [f64; 2], picture: &Picture<u8>) -> Option<[usize; 2]> {
    let is_inside = (0.0..picture.width as f64).contains(&x) && (0.0..picture.height as f64).contains(&y);
    is_inside.then_some([x as usize, y as usize])
}

/// Copies each pixel (x, y), row by row, from the position that `source` returns; pixels from outside the picture stay
/// unchanged.
fn copy<const CHANNELS: usize>(
    picture: &Picture<u8>,
    into: &mut Picture<u8>,
    mut source: impl FnMut(usize, usize) -> Option<[usize; 2]>,
) {
    let pixels = picture.pixels.as_chunks::<CHANNELS>().0;
    let width = into.width.max(1);
    for (y, row) in into.pixels.as_chunks_mut::<CHANNELS>().0.chunks_exact_mut(width).enumerate() {
        for (x, pixel) in row.iter_mut().enumerate() {
            if let Some([column, row]) = source(x, y)
                && column < picture.width
                && row < picture.height
            {
                *pixel = pixels[row * picture.width + column];
            }
        }
    }
}

/// Computes each pixel from the four around its position; pixels outside the picture are replaced with edge pixels.
fn bilinear<const CHANNELS: usize>(picture: &Picture<u8>, matrix: &Matrix, into: &mut Picture<u8>) {
    let (width, pixels) = (picture.width, picture.pixels.as_chunks::<CHANNELS>().0);
    for (y, row) in into.pixels.as_chunks_mut::<CHANNELS>().0.chunks_exact_mut(into.width.max(1)).enumerate() {
        for (x, pixel) in row.iter_mut().enumerate() {
            let found = place(matrix, [x as f64 + 0.5, y as f64 + 0.5]);
            if inside(found, picture).is_none() {
                continue;
            }
            let [x, y] = found.map(|at| at - 0.5);
            let [dx, dy] = [x - x.floor(), y - y.floor()];
            let (left, right) = around(x, width);
            let (top, bottom) = around(y, picture.height);
            let [above, below] = [top, bottom].map(|row| [pixels[row * width + left], pixels[row * width + right]]);
            for (channel, value) in pixel.iter_mut().enumerate() {
                let [above, below] = [above, below].map(|[left, right]| {
                    let (left, right) = (f64::from(left[channel]), f64::from(right[channel]));
                    left + (right - left) * dx
                });
                *value = (above + (below - above) * dy) as u8;
            }
        }
    }
}

/// Returns the pixels on both sides of a position.
fn around(at: f64, length: usize) -> (usize, usize) {
    let first = at.floor() as i64;
    let clipped = |at: i64| at.clamp(0, length as i64 - 1) as usize;
    (clipped(first), clipped(first + 1))
}
