//! `to_dtype`, between bytes and floats.

use super::level::Level;
use super::picture::Picture;
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};
use crate::transform::Values;

/// Converts each value to another type after multiplying it by a factor.
struct Times<'a, A, B>(&'a [A], f32, &'a mut [B]);

impl<A: Level, B: Level> Kernel for Times<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        for (from, into) in self.0.iter().zip(self.2) {
            *into = B::from_float(from.to_float() * self.1);
        }
    }
}

/// Converts each value to another type after dividing it by white.
struct DivideByWhite<'a, A, B>(&'a [A], &'a mut [B]);

impl<A: Level, B: Level> Kernel for DivideByWhite<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        for (from, into) in self.0.iter().zip(self.1) {
            *into = B::from_float(from.to_float() / 255.0);
        }
    }
}

/// Returns the picture in the other type.
pub(in super::super) fn convert<A: Level, B: Level>(picture: &Picture<A>, values: Values) -> Picture<B> {
    let mut pixels = vec![B::default(); picture.pixels.len()];
    match values {
        Values::Kept => run_on_vectors(Times(&picture.pixels, 1.0, &mut pixels)),
        Values::Scaled => run_on_vectors(Times(&picture.pixels, A::TO_UNIT * B::FROM_UNIT, &mut pixels)),
        Values::Divided => run_on_vectors(DivideByWhite(&picture.pixels, &mut pixels)),
    }
    Picture::new(picture.width, picture.height, picture.channels, pixels)
}
