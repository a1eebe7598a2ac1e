//! Files of samples of one size, without metadata.

mod dataset;
mod parse;

pub use dataset::{Raw, RawField};
