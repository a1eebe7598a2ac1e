//! CSV files and streams.

mod dataset;
mod fields;
mod parse;
mod quotes;
mod row;
mod scan;
mod types;

pub use dataset::{Csv, CsvHeader};
