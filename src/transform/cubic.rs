//! [`cubic`]: resizes an image like torch without antialiasing, from four pixels in each direction.

use super::picture::Picture;
use crate::memory::Region;

/// The kernel parameter of torch in this case; with antialiasing, it uses Pillow's -0.5.
const A: f32 = -0.75;

/// For each position of the result: four source positions, clamped to the edges, and their weights.
type Taps = Vec<([usize; 4], [f32; 4])>;

/// Returns `part` of `from` in `width` x `height` pixels: first resizes the rows to the new width, then the columns to
/// the new height. `between` is applied to the intermediate values.
///
/// Source: Keys, "Cubic convolution interpolation for digital image processing", IEEE TASSP 29 (1981).
pub(super) fn cubic(
    from: &Picture<f32>,
    part: Region,
    [width, height]: [usize; 2],
    between: impl Fn(f32) -> f32,
) -> Vec<f32> {
    let channels = from.channels;
    let (columns, rows) = (taps(part.width, width, part.left), taps(part.height, height, part.top));
    let mut pixels = Vec::with_capacity(width * height * channels);
    for (rows, down) in &rows {
        for (columns, across) in &columns {
            for channel in 0..channels {
                let value = |row: usize, column: usize| from.pixels[(row * from.width + column) * channels + channel];
                let wide = rows.map(|row| between(sum(columns.map(|column| value(row, column)), across)));
                pixels.push(sum(wide, down));
            }
        }
    }
    pixels
}

fn sum(values: [f32; 4], weights: &[f32; 4]) -> f32 {
    values[0] * weights[0] + values[1] * weights[1] + values[2] * weights[2] + values[3] * weights[3]
}

fn taps(found: usize, wanted: usize, first: usize) -> Taps {
    let step = found as f32 / wanted as f32;
    let tap = |place: usize| {
        let source = step * (place as f32 + 0.5) - 0.5;
        let before = source.floor();
        let share = source - before;
        let at = |of: f32| first + (before + of).clamp(0.0, (found - 1) as f32) as usize;
        ([at(-1.0), at(0.0), at(1.0), at(2.0)], [far(share + 1.0), near(share), near(1.0 - share), far(2.0 - share)])
    };
    (0..wanted).map(tap).collect()
}

/// Returns the weight of a pixel at a distance of at most one.
fn near(x: f32) -> f32 {
    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
}

/// Returns the weight of a pixel at a distance between one and two.
fn far(x: f32) -> f32 {
    ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
}
