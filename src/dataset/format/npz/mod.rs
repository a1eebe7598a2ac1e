//! NPZ files.

mod dataset;
mod members;

pub use dataset::Npz;
