//! The same arithmetic for every value, whichever channel it is of.

use super::level::Level;
use crate::memory::{Kernel, MultiplyAdd, run_on_vectors};

/// What is done to a value. Implementors write `#[inline(always)]` on the method.
pub(super) trait OfValue {
    fn of<M: MultiplyAdd>(&self, value: f32) -> f32;
}

struct Each<'a, T, F>(&'a mut [T], F);

impl<T: Level, F: OfValue> Kernel for Each<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<M: MultiplyAdd>(self) {
        for value in self.0 {
            *value = T::from_float(self.1.of::<M>(value.to_float()));
        }
    }
}

/// Makes each value what `function` makes of it.
pub(super) fn map<T: Level>(values: &mut [T], function: impl OfValue) {
    run_on_vectors(Each(values, function));
}
