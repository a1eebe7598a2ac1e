//! Files of samples of one size, without a header.

mod dataset;
mod parse;

pub use dataset::{Raw, RawField};
