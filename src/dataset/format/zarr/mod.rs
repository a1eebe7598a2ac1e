//! Zarr: chunked arrays in a folder, versions 2 and 3.

mod array;
mod blosc;
mod cf;
mod codecs;
mod dataset;
mod element;
mod field;
mod metadata;
mod options;
mod packing;
mod store;
mod windows;

pub use dataset::Zarr;
pub use options::ZarrOptions;
pub use windows::{WindowEdges, WindowOrder};
