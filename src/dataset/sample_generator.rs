//! [`generator_of`]: the generator that a random sample draws from.

use crate::rng::{GeneratorPlace, PythonGenerator};
use crate::{Error, Result, TorchGenerator};

/// Returns the generator that a random sample draws from: at the position recorded for it, or, if samples have a key,
/// the one that a Python dataset would draw from, with Python's if needed.
pub(super) fn generator_of(
    (place, key): (Option<&GeneratorPlace>, Option<u64>),
    draws_from_python: bool,
) -> Result<TorchGenerator> {
    match (place, key) {
        (Some(place), _) => Ok(TorchGenerator::at(place)),
        (None, Some(key)) => {
            let generator = TorchGenerator::of_global_key(key);
            Ok(if draws_from_python { generator.with_python(PythonGenerator::of_global_key(key)) } else { generator })
        }
        (None, None) => {
            let reason = "the transforms are random, so the loader needs a seed";
            Err(Error::InvalidArgument { argument: "seed", reason: reason.into() })
        }
    }
}
