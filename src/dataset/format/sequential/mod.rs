//! Sources that are read sequentially: their bytes, how these are parsed, and the processes that produce them.

pub(super) mod byte_stream;
pub(super) mod parse;
mod process;
pub(super) mod source;
mod stream_dataset;
mod stream_format;
pub(super) mod text_parse;

pub use byte_stream::StreamPacking;
pub use source::StreamSource;
pub use stream_dataset::StreamDataset;
pub use stream_format::StreamFormat;
