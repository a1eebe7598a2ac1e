//! NPY files.

mod dataset;

pub use dataset::Npy;
