//! [`Grid`]: where the pixels of a warped picture come from, rounded like torch's single precision.

use super::Reason;
use super::affine_matrix::Matrix;
use super::picture::Picture;
use crate::memory::MultiplyAdd;
use crate::transform::ProductRounding;
use crate::transform::perspective::Perspective;

/// Marks a position without a pixel.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// Where the pixels of a picture come from.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Projection {
    /// An affine matrix, relative to the middles of both pictures.
    Affine(Matrix),
    /// A perspective, relative to the upper left corners of both.
    Perspective(Perspective),
}

/// The sources of pixels: torchvision first makes a grid of positions from -1 to 1, from which torch computes pixel
/// positions.
pub(super) struct Grid {
    across: [f32; 3],
    down: [f32; 3],
    /// The divisor of both, for a perspective.
    under: Option<[f32; 3]>,
    rounding: ProductRounding,
    pub(super) size: [usize; 2],
    pub(super) of: [f32; 2],
}

impl Grid {
    pub(super) fn new<T>(picture: &Picture<T>, projection: &Projection, size: [usize; 2]) -> Result<Self, Reason> {
        if picture.height.saturating_mul(picture.width) >= OUTSIDE as usize {
            return Err(format!("an image of {} x {} pixels is too large to be warped", picture.width, picture.height));
        }
        let of = [picture.height as f32, picture.width as f32];
        let (across, down, under) = match projection {
            Projection::Affine([a, b, c, d, e, f]) => ([a, b, c], [d, e, f], None),
            Projection::Perspective([a, b, c, d, e, f, g, h]) => {
                ([a, b, c], [d, e, f], Some([*g as f32, *h as f32, 1.0]))
            }
        };
        let [half_height, half_width] = of.map(|length| 0.5 * length);
        let (across, down) = (across.map(|v| *v as f32 / half_width), down.map(|v| *v as f32 / half_height));
        Ok(Self { across, down, under, rounding: ProductRounding::get(), size, of })
    }

    /// Returns the source positions of a row of pixels.
    #[inline(always)]
    pub(super) fn row<M: MultiplyAdd>(&self, y: usize, columns: &mut [f32], rows: &mut [f32]) {
        let [of_rows, of_columns] = self.of.map(|length| 0.5 * length);
        let rounding = self.rounding;
        let place = |[a, b, c]: [f32; 3], x: f32, y: f32| match rounding {
            ProductRounding::Fused => M::multiply_add(y, b, x * a) + c,
            ProductRounding::Separate => x * a + y * b + c,
        };
        let both = columns.iter_mut().zip(rows).enumerate();
        if let Some(under) = self.under {
            let y = y as f32 + 0.5;
            for (x, (column, row)) in both {
                let x = x as u32 as f32 + 0.5;
                let under = place(under, x, y);
                *column = M::multiply_add((place(self.across, x, y) / under - 1.0) + 1.0, of_columns, -0.5);
                *row = M::multiply_add((place(self.down, x, y) / under - 1.0) + 1.0, of_rows, -0.5);
            }
            return;
        }
        let [height, width] = self.size.map(|length| (length as f32 - 1.0) * 0.5);
        let y = y as f32 - height;
        for (x, (column, row)) in both {
            let x = x as u32 as f32 - width;
            *column = M::multiply_add(place(self.across, x, y) + 1.0, of_columns, -0.5);
            *row = M::multiply_add(place(self.down, x, y) + 1.0, of_rows, -0.5);
        }
    }
}
