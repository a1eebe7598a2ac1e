//! Processes colors a block at a time, with each channel in a separate row, so that arithmetic on the rows is
//! vectorized.

use super::level::Level;
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

pub(super) const BLOCK: usize = 64;

/// Red, green and blue of some pixels.
pub(super) type Planes = [[f32; BLOCK]; 3];

/// An operation on colors. Implementors put `#[inline(always)]` on the method.
pub(super) trait OfColors {
    /// Processes a block in place. In the last block, values past the image are arbitrary and ignored.
    fn of<M: MultiplyAdd>(&self, planes: &mut Planes);
}

struct MapBlocks<'a, T, F>(&'a mut [T], F);

impl<T: Level, F: OfColors> Kernel for MapBlocks<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        let mut planes = [[0.0; BLOCK]; 3];
        for pixels in self.0.chunks_mut(3 * BLOCK) {
            load(pixels, &mut planes);
            self.1.of::<M>(&mut planes);
            let [red, green, blue] = &planes;
            for (((pixel, r), g), b) in pixels.as_chunks_mut().0.iter_mut().zip(red).zip(green).zip(blue) {
                *pixel = [T::from_float(*r), T::from_float(*g), T::from_float(*b)];
            }
        }
    }
}

#[inline(always)]
pub(super) fn load<T: Level>(pixels: &[T], planes: &mut Planes) {
    let [red, green, blue] = planes;
    for ((([of_red, of_green, of_blue], r), g), b) in pixels.as_chunks().0.iter().zip(red).zip(green).zip(blue) {
        (*r, *g, *b) = (of_red.to_float(), of_green.to_float(), of_blue.to_float());
    }
}

/// Replaces the colors of these pixels with the results of `function`.
pub(super) fn map<T: Level>(pixels: &mut [T], function: impl OfColors) {
    run_on_vectors(MapBlocks(pixels, function));
}
