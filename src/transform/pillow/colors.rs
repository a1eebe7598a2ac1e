//! [`map`]: applies a vectorized function to the color of each pixel.

use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

/// Number of pixels to process at a time.
const BLOCK: usize = 64;

/// A function of red, green, and blue. Implementors put `#[inline(always)]` on the method, and use no branches.
pub(super) trait OfColor {
    fn of(&self, color: [i32; 3]) -> [i32; 3];
}

struct MapPixels<'a, F>(&'a mut [[u8; 3]], F);

impl<F: OfColor> Kernel for MapPixels<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        let [mut red, mut green, mut blue] = [[0_i32; BLOCK]; 3];
        for colors in self.0.chunks_mut(BLOCK) {
            for (((color, r), g), b) in colors.iter().zip(&mut red).zip(&mut green).zip(&mut blue) {
                [*r, *g, *b] = color.map(i32::from);
            }
            for ((r, g), b) in red.iter_mut().zip(&mut green).zip(&mut blue) {
                [*r, *g, *b] = self.1.of([*r, *g, *b]);
            }
            for (((color, r), g), b) in colors.iter_mut().zip(&red).zip(&green).zip(&blue) {
                *color = [*r as u8, *g as u8, *b as u8];
            }
        }
    }
}

/// Replaces the colors of these pixels with the results of `function`.
pub(super) fn map(pixels: &mut [u8], function: impl OfColor) {
    run_on_vectors(MapPixels(pixels.as_chunks_mut().0, function));
}
