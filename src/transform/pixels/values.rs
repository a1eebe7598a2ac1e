//! Applies the same arithmetic to every value of every channel.

use super::level::Level;
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

/// A function of a value. Implementors put `#[inline(always)]` on the method.
pub(super) trait OfValue {
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32;
}

struct MapValues<'a, T, F>(&'a mut [T], F);

impl<T: Level, F: OfValue> Kernel for MapValues<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        for value in self.0 {
            *value = T::from_float(self.1.of::<M>(value.to_float()));
        }
    }
}

/// Replaces each value with the result of `function`.
pub(super) fn map<T: Level>(values: &mut [T], function: impl OfValue) {
    run_on_vectors(MapValues(values, function));
}
