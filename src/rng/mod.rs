//! The only source of randomness: everything random in this crate is drawn here, and all of it is a pure function of a
//! seed and a position.
//!
//! - [`Permutation`]: the order of an epoch in seed mode, a keyed bijection that needs no memory.
//! - [`PermutationSeries`]: any number of additional permutations per epoch; [`BulkPermutation`]: blocks of positions.
//! - [`Draws`]: independent draws, one at each position.
//! - [`sample_key`]: the seed of everything random about one sample.
//! - [`TorchGenerator`]: torch's own generator, with its shuffle, bit for bit.
//!
//! The values are a guarantee: a training run that is resumed with a later version continues in the same order.
//! Changing a value is a breaking change, and the tests pin the values.

mod below;
mod bulk_permutation;
mod digest;
#[cfg(feature = "image")]
mod dirichlet;
mod draws;
mod exponential;
mod feistel;
mod generator_place;
mod generator_words;
mod key_stream;
mod mt19937;
mod normal_block;
mod permutation;
mod permutation_series;
mod python_generator;
mod randperm;
mod round_tables;
mod sample_key;
mod shuffle_table;
mod torch_floats;

pub(crate) use below::below;
pub(crate) use bulk_permutation::BulkPermutation;
pub(crate) use digest::digest;
pub(crate) use draws::Draws;
pub(crate) use exponential::exponential;
pub use generator_place::GeneratorPlace;
pub use generator_words::{GENERATOR_WORDS, GeneratorStream, generator_words};
pub(crate) use key_stream::{KeyStream, Purpose};
pub use mt19937::TorchGenerator;
#[cfg(feature = "image")]
pub(crate) use normal_block::{BLOCK as NORMAL_BLOCK, are_made_by_vectors, fill_by_library, fill_by_vectors};
pub use permutation::Permutation;
pub(crate) use permutation_series::{PermutationSeries, Series};
pub use python_generator::PythonGenerator;
pub(crate) use randperm::randperm_draws;
pub use sample_key::sample_key;
