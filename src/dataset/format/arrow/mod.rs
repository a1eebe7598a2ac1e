//! Arrow files and record batches.

mod batch;
#[cfg(feature = "python")]
mod column;
mod dataset;
mod files;
mod index;
#[cfg(feature = "python")]
mod number;
mod record_batches;
#[cfg(feature = "python")]
mod table;

pub use dataset::Arrow;
pub use record_batches::RecordBatches;
#[cfg(feature = "python")]
pub(crate) use table::{ArrowTable, Step, TableValue};
