//! Safetensors files.

mod dataset;
mod header;

pub use dataset::Safetensors;
