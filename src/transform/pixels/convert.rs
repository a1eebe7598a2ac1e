//! `to_dtype`, between bytes and floats.

use super::level::Level;
use super::picture::Picture;
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};
use crate::transform::Values;

/// Each value times a factor, in another type.
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

/// The picture in the other type.
pub(in super::super) fn convert<A: Level, B: Level>(picture: &Picture<A>, values: Values) -> Picture<B> {
    let factor = match values {
        Values::Kept => 1.0,
        Values::Scaled => A::TO_UNIT * B::FROM_UNIT,
    };
    let mut pixels = vec![B::default(); picture.pixels.len()];
    run_on_vectors(Times(&picture.pixels, factor, &mut pixels));
    Picture::new(picture.width, picture.height, picture.channels, pixels)
}
