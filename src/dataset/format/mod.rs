//! One file per format on disk.

mod npy;
mod npy_header;

pub use npy::Npy;
