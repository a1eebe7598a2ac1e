//! Tar archives that follow WebDataset's conventions: read, streamed and written.

mod dataset;
mod extended;
mod field;
mod header;
mod index;
mod kept;
mod key;
mod members;
mod offsets;
mod options;
mod parse;
mod pax;
mod places;
mod shard;
mod shards;
mod walk;
mod wanted;
mod writer;

pub use dataset::Tar;
pub use field::{TarField, TarValue};
pub use members::TarEnd;
pub use options::{OnMissing, TarOptions};
pub use shards::TarShards;
pub use writer::TarWriter;
