//! Parquet files: read, filtered and written.

mod bounds;
mod columns;
mod dataset;
mod file;
mod filter;
mod groups;
mod int96;
mod leaf_types;
mod nested;
mod reuse;
mod schema;
mod shards;
mod source;
mod texts;

pub use columns::{ParquetColumn, ParquetElement, ParquetField};
pub use dataset::{Parquet, ParquetOptions};
pub use filter::{ParquetFilter, Relation};
pub use shards::{ParquetCompression, ParquetShardOptions, ParquetShards};
