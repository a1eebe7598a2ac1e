//! [`normal`]: draws many normal deviates.

use crate::TorchGenerator;
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};
use crate::rng::{NORMAL_BLOCK, are_made_by_vectors, fill_by_library, fill_by_vectors};

/// Blocks of uniform deviates to convert to normal ones.
struct Blocks<'a>(&'a mut [[f32; NORMAL_BLOCK]]);

impl Kernel for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        for block in self.0 {
            fill_by_vectors(block, M::multiply_add);
        }
    }
}

/// Like [`TorchGenerator::normal_f32`], but vectorized.
pub(crate) fn normal(len: usize, generator: &mut TorchGenerator) -> Vec<f32> {
    generator.normal_f32_by(len, |blocks| match are_made_by_vectors() {
        true => run_on_vectors(Blocks(blocks)),
        false => blocks.iter_mut().for_each(fill_by_library),
    })
}
