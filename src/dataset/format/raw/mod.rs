//! Files of samples of one size, without a header.

mod dataset;
pub(super) mod parse;

pub use dataset::{Raw, RawField};
