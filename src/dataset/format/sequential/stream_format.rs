//! [`StreamFormat`]: how the bytes of a stream are parsed into samples.

use std::fmt;
use std::sync::Arc;

use super::parse::Parse;
use crate::Result;

/// How a stream is parsed into samples. Each format has a constructor, in its own folder: [`csv`](Self::csv),
/// [`json_lines`](Self::json_lines), [`raw`](Self::raw), [`tar`](Self::tar) and [`tfrecord`](Self::tfrecord).
///
/// # Example
/// ```
/// use sluicegate::{StreamDataset, StreamFormat, StreamSource, TypedField};
/// let format = StreamFormat::json_lines(Some(vec![TypedField::text("text")]));
/// let stream = StreamDataset::new(vec![StreamSource::Path("lines.jsonl".into())], format);
/// stream.check()?;
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone)]
pub struct StreamFormat {
    name: &'static str,
    parse: Arc<MakeParse>,
}

/// Makes a parser for samples of at most this many bytes.
type MakeParse = dyn Fn(u64) -> Result<Box<dyn Parse>> + Send + Sync;

impl StreamFormat {
    /// A format whose parser `parse` makes, at the beginning of each pass, given the maximum sample size in bytes.
    pub(crate) fn new<P: Parse + 'static>(
        name: &'static str,
        parse: impl Fn(u64) -> Result<P> + Send + Sync + 'static,
    ) -> Self {
        Self { name, parse: Arc::new(move |largest| Ok(Box::new(parse(largest)?))) }
    }

    pub(super) fn parse(&self, largest: u64) -> Result<Box<dyn Parse>> {
        (self.parse)(largest)
    }
}

impl fmt::Debug for StreamFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("StreamFormat").field(&self.name).finish()
    }
}
