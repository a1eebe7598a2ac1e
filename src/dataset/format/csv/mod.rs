//! CSV files and streams.

mod dataset;
mod fields;
mod parse;
mod row;
mod scan;
mod types;

pub use dataset::{Csv, CsvHeader};
