//! Files and streams of JSON lines.

mod fields;
mod lines;
pub(super) mod parse;
mod scan;

pub use lines::JsonLines;
