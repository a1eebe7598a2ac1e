//! [`generator_of`]: the generator that a random sample draws from.

use crate::rng::GeneratorPlace;
use crate::{Error, Result, TorchGenerator};

/// Returns the generator that a random sample draws from: at the position recorded for it, or, if samples have a key,
/// the one that a Python dataset would draw from.
pub(super) fn generator_of(place: Option<&GeneratorPlace>, key: Option<u64>) -> Result<TorchGenerator> {
    match (place, key) {
        (Some(place), _) => Ok(TorchGenerator::at(place)),
        (None, Some(key)) => Ok(TorchGenerator::of_global_key(key)),
        (None, None) => {
            let reason = "the transforms are random, so the loader needs a seed";
            Err(Error::InvalidArgument { argument: "seed", reason: reason.into() })
        }
    }
}
