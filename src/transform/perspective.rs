//! The coefficients of a perspective, which map positions of the distorted picture to positions of the image.

use super::Reason;

/// The products below fit into `i128` for images of up to this many pixels in each direction.
const LONGEST: usize = 1 << 17;

/// A perspective (a, b, c, d, e, f, g, h): position (x, y) of the result shows ((a x + b y + c) / (g x + h y + 1), (d x
/// + e y + f) / (g x + h y + 1)) of the image.
pub(super) type Perspective = [f64; 8];

/// Returns the perspective that moves the corners of an image (clockwise from the upper left one, the centers of its
/// outermost pixels) to `corners` (x, y).
///
/// torchvision solves eight equations in double precision and rounds the result to single precision. Here the solution
/// is computed exactly and rounded the same way, which gives torch's numbers, except that an exact 0 here may be 1e-15
/// there.
///
/// Source: Heckbert, "Fundamentals of texture mapping and image warping", University of California, Berkeley, 1989.
pub(super) fn coefficients(corners: [[i64; 2]; 4], height: usize, width: usize) -> Result<Perspective, Reason> {
    if height > LONGEST || width > LONGEST {
        return Err(format!(
            "perspective is not supported for an image of {height} x {width} pixels: at most {LONGEST} in each \
             direction"
        ));
    }
    let [p0, p1, p2, p3] = corners.map(|corner| corner.map(i128::from));
    let minus = |a: [i128; 2], b: [i128; 2]| [a[0] - b[0], a[1] - b[1]];
    let cross = |a: [i128; 2], b: [i128; 2]| a[0] * b[1] - b[0] * a[1];
    // Maps the unit square to the corners, multiplied by `scale`.
    let (right, left) = (minus(p1, p2), minus(p3, p2));
    let [across, down] = [0, 1].map(|axis| p0[axis] - p1[axis] + p2[axis] - p3[axis]);
    let scale = cross(right, left);
    let (g, h) = (cross([across, down], left), cross(right, [across, down]));
    let row = |axis: usize| {
        [scale * (p1[axis] - p0[axis]) + g * p1[axis], scale * (p3[axis] - p0[axis]) + h * p3[axis], scale * p0[axis]]
    };
    let (x, y, w) = (row(0), row(1), [g, h, scale]);
    // The inverse, using the adjugate: a common factor cancels in the division.
    let minor = |a: [i128; 3], b: [i128; 3], [i, j]: [usize; 2]| a[i] * b[j] - a[j] * b[i];
    let pairs = [[1, 2], [2, 0], [0, 1]];
    let back = pairs.map(|pair| [minor(y, w, pair), minor(w, x, pair), minor(x, y, pair)]);
    let lengths = [width as i128 - 1, height as i128 - 1, 1];
    let last = back[2][2];
    if last == 0 {
        return Err(format!(
            "perspective is not possible for an image of {height} x {width} pixels: the corners are collinear"
        ));
    }
    let value = |at: usize| f64::from(((back[at / 3][at % 3] * lengths[at / 3]) as f64 / last as f64) as f32);
    Ok(std::array::from_fn(value))
}

/// Returns the inverse perspective, which maps positions of the image to the result, with torchvision's formula and
/// rounding.
pub(super) fn inverse([a, b, c, d, e, f, g, h]: Perspective) -> Result<Perspective, Reason> {
    let determinant = a * e - b * d;
    if determinant == 0.0 {
        return Err("boxes can't be moved by a perspective that maps the image to a line".into());
    }
    Ok([e - f * h, -b + c * h, b * f - c * e, -d + f * g, a - c * g, -a * f + c * d, -e * g + d * h, -a * h + b * g]
        .map(|value| value / determinant))
}
