//! The only source of randomness: everything random in this crate is drawn here, and all of it is a pure function of a
//! seed and a place.
//!
//! - [`Permutation`]: the order of an epoch in seed mode, a keyed bijection that needs no memory.
//! - [`sample_key`]: the seed of whatever is random about one sample.
//! - [`TorchGenerator`] and [`randperm`]: torch's own generator and shuffle, bit for bit.
//!
//! The values are a promise: a training run that is resumed with a later version goes on in the same order. A changed
//! value is a breaking change, and the tests pin them.

mod feistel;
mod key_stream;
mod mt19937;
mod permutation;
mod randperm;
mod sample_key;
mod shuffle_table;

pub use mt19937::TorchGenerator;
pub use permutation::Permutation;
pub use randperm::randperm;
pub(crate) use randperm::randperm_draws;
pub use sample_key::sample_key;
