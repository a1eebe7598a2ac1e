//! TFRecord files and streams, and the protocol buffers in them.

mod dataset;
mod example;
mod example_fields;
mod parse;
mod protobuf;
mod scan;

pub use dataset::{Features, TfRecord};
