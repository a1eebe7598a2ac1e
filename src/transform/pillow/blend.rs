//! [`blend`]: blends one image with another, or extrapolates past it.

use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

/// Returns the value at `share` of the way from `from` to `to`, clamped to valid values; the fractional part is
/// discarded.
#[inline(always)]
pub(super) fn between(from: i32, to: i32, share: f32) -> i32 {
    // Rounded after the product, and after the sum.
    let value = from as f32 + share * (to - from) as f32;
    value.clamp(0.0, 255.0) as i32
}

struct Blend<'a>(&'a [u8], &'a mut [u8], f32);

impl Kernel for Blend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        for (from, to) in self.0.iter().zip(self.1) {
            *to = between((*from).into(), (*to).into(), self.2) as u8;
        }
    }
}

/// Replaces each value of `to` with the value at `share` of the way from `from` to it.
pub(super) fn blend(from: &[u8], to: &mut [u8], share: f32) {
    run_on_vectors(Blend(from, to, share));
}
