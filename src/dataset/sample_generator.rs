//! [`Origin`] and [`generator_of`]: the generator that a random sample draws from.

use crate::rng::{GeneratorPlace, PythonGenerator};
use crate::{Error, Result, TorchGenerator};

/// Where the draws of a sample begin: the position that was recorded for it, or its key.
pub(super) type Origin<'a> = (Option<&'a GeneratorPlace>, Option<u64>);

/// Returns the generator that a random sample draws from: at the position recorded for it, or, if samples have a key,
/// the one that a Python dataset would draw from, with Python's if needed.
pub(super) fn generator_of((place, key): Origin<'_>, draws_from_python: bool) -> Result<TorchGenerator> {
    match (place, key) {
        (Some(place), _) => Ok(TorchGenerator::at(place)),
        (None, Some(key)) => {
            let generator = TorchGenerator::of_global_key(key);
            Ok(if draws_from_python { generator.with_python(PythonGenerator::of_global_key(key)) } else { generator })
        }
        (None, None) => Err(Error::invalid("seed", "the transforms are random, so the loader needs a seed")),
    }
}
