//! The matrices of `affine` and `rotate`, and the size of a rotated image.

use super::Reason;

/// Two rows of factors for (x, y, 1).
pub(in super::super) type Matrix = [f64; 6];

/// A motion of positions about a center: angle and shear in degrees, translation in pixels, and a scale.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Motion {
    pub(in super::super) angle: f64,
    pub(in super::super) translate: [f64; 2],
    pub(in super::super) scale: f64,
    pub(in super::super) shear: [f64; 2],
}

impl Motion {
    /// Returns a counterclockwise rotation of the image.
    pub(in super::super) fn turn(angle: f64) -> Self {
        Self { angle: -angle, translate: [0.0; 2], scale: 1.0, shear: [0.0; 2] }
    }

    pub(in super::super) fn check(&self) -> Result<(), Reason> {
        if self.scale > 0.0 { Ok(()) } else { Err(format!("the scale must be positive, got {}", self.scale)) }
    }

    /// Returns the matrix of the rotation and of the vertical and then horizontal shear, without scale or translation.
    fn rotation_and_shear(&self) -> [f64; 4] {
        let turn = self.angle.to_radians();
        let [across, down] = self.shear.map(f64::to_radians);
        let (a, c) = ((turn - down).cos() / down.cos(), (turn - down).sin() / down.cos());
        [a, -(a * across.tan() + turn.sin()), c, turn.cos() - c * across.tan()]
    }

    /// Returns the matrix that maps source positions to result positions.
    pub(in super::super) fn forward(&self, [x, y]: [f64; 2]) -> Matrix {
        let [a, b, c, d] = self.rotation_and_shear().map(|value| value * self.scale);
        let [right, down] = self.translate;
        [a, b, x + right - a * x - b * y, c, d, y + down - c * x - d * y]
    }

    /// Returns the matrix that maps result positions to source positions.
    pub(in super::super) fn backward(&self, [x, y]: [f64; 2]) -> Matrix {
        let [a, b, c, d] = self.rotation_and_shear();
        // The determinant is one.
        let [a, b, c, d] = [d / self.scale, -b / self.scale, -c / self.scale, a / self.scale];
        let (moved_x, moved_y) = (x + self.translate[0], y + self.translate[1]);
        [a, b, x - a * moved_x - b * moved_y, c, d, y - c * moved_x - d * moved_y]
    }
}

/// Returns the height and the width of the smallest upright frame around an image that `matrix` turns about its middle,
/// in single precision, like torchvision.
pub(in super::super) fn frame(matrix: &Matrix, height: usize, width: usize) -> [usize; 2] {
    let [a, b, c, d, e, f] = matrix.map(|value| value as f32);
    let (half_width, half_height) = (0.5 * width as f32, 0.5 * height as f32);
    let corners = [(-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0)].map(|(x, y)| (x * half_width, y * half_height));
    let length = |half: f32, of: &dyn Fn((f32, f32)) -> f32| {
        // Keep four decimal digits: a rounding error must not add a pixel.
        let cut = |value: f32| ((value + half) * 10_000.0).trunc() * 1e-4;
        let places = corners.map(of);
        let most = places.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = places.iter().copied().fold(f32::INFINITY, f32::min);
        (cut(most).ceil() - cut(least).floor()) as usize
    };
    let width = length(half_width, &|(x, y)| y.mul_add(b, x * a) + c);
    let height = length(half_height, &|(x, y)| y.mul_add(e, x * d) + f);
    [height, width]
}
