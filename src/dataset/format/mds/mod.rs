//! MDS, the format of MosaicML's Streaming.

mod blocks;
mod column;
mod dataset;
mod index;
mod shard;

pub use dataset::Mds;
