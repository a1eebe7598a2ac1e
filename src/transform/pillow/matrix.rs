//! [`turn`]: where the pixels of a rotated or sheared image come from, with the arithmetic of Pillow and torchvision.

use crate::transform::pixels::affine_matrix::{Matrix, Motion};
use crate::transform::{Frame, Operation, Torchvision};

/// Degrees of a full circle.
const FULL: f64 = 360.0;

/// How an image is turned.
pub(super) enum Turn {
    /// By this many quarter turns, to the left.
    Quarters(u8),
    /// In any other way, to an image of this height and width.
    Warp(Matrix, [usize; 2]),
}

/// Returns how `operation`, which is `Rotate` or `Affine`, turns an image of this size; other operations do not turn
/// it.
pub(super) fn turn(operation: &Operation, version: Torchvision, size: [usize; 2]) -> Turn {
    match operation {
        Operation::Rotate { angle, frame, center, .. } => rotation(*angle, *frame, *center, size),
        other => match other.motion() {
            Some((motion, center)) => {
                let center = center.unwrap_or_else(|| middle(size));
                Turn::Warp(
                    match version {
                        Torchvision::V1 => backward_of_v1(&motion, center),
                        Torchvision::V2 => motion.backward(center),
                    },
                    size,
                )
            }
            None => Turn::Quarters(0),
        },
    }
}

/// Returns the height and width of a turned image.
pub(super) fn turned_size(operation: &Operation, [height, width]: [usize; 2]) -> (usize, usize) {
    match turn(operation, Torchvision::default(), [height, width]) {
        Turn::Quarters(1 | 3) => (width, height),
        Turn::Quarters(_) => (height, width),
        Turn::Warp(_, [height, width]) => (height, width),
    }
}

fn middle([height, width]: [usize; 2]) -> [f64; 2] {
    [width as f64 / 2.0, height as f64 / 2.0]
}

fn rotation(angle: f64, frame: Frame, center: Option<[f64; 2]>, size: [usize; 2]) -> Turn {
    let angle = angle.rem_euclid(FULL);
    if center.is_none() {
        let fits = frame == Frame::Expanded || size[0] == size[1];
        for (quarters, whole) in [(0, 0.0), (2, 180.0), (1, 90.0), (3, 270.0)] {
            if angle == whole && (fits || quarters % 2 == 0) {
                return Turn::Quarters(quarters);
            }
        }
    }
    let [x, y] = center.unwrap_or_else(|| middle(size));
    let angle = -angle.to_radians();
    let (cosine, sine) = (rounded(angle.cos()), rounded(angle.sin()));
    let mut matrix = [cosine, sine, 0.0, rounded(-angle.sin()), cosine, 0.0];
    [matrix[2], matrix[5]] = place(&matrix, [-x, -y]);
    matrix[2] += x;
    matrix[5] += y;
    match frame {
        Frame::Same => Turn::Warp(matrix, size),
        Frame::Expanded => expanded(matrix, size),
    }
}

/// Returns the warp for a result that is large enough to contain the whole image.
fn expanded(mut matrix: Matrix, [height, width]: [usize; 2]) -> Turn {
    let (h, w) = (height as f64, width as f64);
    let corners = [[0.0, 0.0], [w, 0.0], [w, h], [0.0, h]].map(|corner| place(&matrix, corner));
    let length = |axis: usize| {
        let most = corners.iter().map(|corner| corner[axis]).fold(f64::NEG_INFINITY, f64::max);
        let least = corners.iter().map(|corner| corner[axis]).fold(f64::INFINITY, f64::min);
        most.ceil() - least.floor()
    };
    let (new_width, new_height) = (length(0), length(1));
    [matrix[2], matrix[5]] = place(&matrix, [-(new_width - w) / 2.0, -(new_height - h) / 2.0]);
    Turn::Warp(matrix, [new_height as usize, new_width as usize])
}

pub(super) fn place([a, b, c, d, e, f]: &Matrix, [x, y]: [f64; 2]) -> [f64; 2] {
    [a * x + b * y + c, d * x + e * y + f]
}

/// Rounds to 15 decimals, like Python.
fn rounded(value: f64) -> f64 {
    format!("{value:.15}").parse().unwrap_or(value)
}

/// Returns the matrix that maps result positions to source positions for `motion` about `center`, with the formula of
/// torchvision's v1 transforms, which rounds differently from [`Motion::backward`], the formula of v2.
fn backward_of_v1(motion: &Motion, [x, y]: [f64; 2]) -> Matrix {
    let [across, down] = motion.translate;
    let turn = motion.angle.to_radians();
    let [shear_x, shear_y] = motion.shear.map(f64::to_radians);
    let turned = turn - shear_y;
    let a = turned.cos() / shear_y.cos();
    let b = -turned.cos() * shear_x.tan() / shear_y.cos() - turn.sin();
    let c = turned.sin() / shear_y.cos();
    let d = -turned.sin() * shear_x.tan() / shear_y.cos() + turn.cos();
    let [a, b, c, d] = [d, -b, -c, a].map(|value| value / motion.scale);
    let (to_x, to_y) = (-x - across, -y - down);
    [a, b, a * to_x + b * to_y + x, c, d, c * to_x + d * to_y + y]
}
