//! Files and streams of JSON lines.

mod fields;
mod lines;
mod parse;
mod scan;

pub use lines::JsonLines;
