//! Random number generators of Python's `random`, NumPy, and torch: their states, and what draws from them.

pub(crate) mod global_generators;
mod mersenne;
pub(crate) mod sample_draws;
pub(crate) mod torch_generator;
