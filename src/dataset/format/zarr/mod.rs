//! Zarr v2 and v3: chunked arrays in a folder. Also arrays of other formats whose files can be read as such chunks.

mod array;
mod blosc;
mod cf;
mod chunk_files;
mod chunk_reader;
mod codecs;
mod cuts;
mod dataset;
mod element;
mod field;
mod folder_store;
mod found_array;
mod kerchunk;
mod metadata;
mod netcdf3;
mod options;
mod packing;
mod references;
mod store;
mod stored_chunk;
mod szip;
mod whole;
mod windows;

pub use chunk_reader::{ChunkError, ChunkReader, ReadChunks};
pub use dataset::Zarr;
pub use element::numpy_type;
pub use found_array::{ForeignArray, ForeignChunks, Member};
pub use kerchunk::ReferenceTable;
pub use options::ZarrOptions;
pub use references::{Reference, ReferenceLayout, ReferenceSource};
pub use windows::{WindowEdges, WindowOrder};
