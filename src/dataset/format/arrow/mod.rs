//! Arrow files and record batches.

mod batch;
mod column;
mod dataset;
mod files;
mod index;
mod number;
mod record_batches;
mod table;

pub use dataset::Arrow;
pub use record_batches::RecordBatches;
pub use table::{ArrowTable, Step, TableValue};
