//! The trait [`IterableDataset`]: samples one after the other, without an index.

use serde::{Deserialize, Serialize};

use super::format::{SampleBlock, TypedField};
use super::{StopSignal, StreamPart};
use crate::Result;

/// Samples that can only be read in their order.
///
/// # Contract
/// - The samples have *ordinals*, counted from 0 and the same in every pass. `part` selects which of them are read; the
///   others are skipped as cheaply as possible, without being decoded.
/// - Reading ends soon after `stop` is set, even while it waits for data.
/// - A dataset that can be read only once says so in [`is_repeatable`](Self::is_repeatable).
pub trait IterableDataset: Send + Sync {
    /// Begins a pass at position `from`.
    ///
    /// # Errors
    /// The data can't be opened, or has no such position.
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>>;

    /// True if a second pass finds the same samples, and two passes at once each find all of them.
    fn is_repeatable(&self) -> bool {
        true
    }
}

/// One pass over an [`IterableDataset`], read by one thread at a time.
pub trait SampleStream: Send {
    /// The fields of all samples.
    fn fields(&self) -> &[TypedField];

    /// Appends the next sample of its part to `into`.
    ///
    /// # Errors
    /// The underlying data can't be read, or is damaged. Results of later calls are unspecified, unless
    /// [`pass_failed`](Self::pass_failed) says otherwise.
    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance>;

    /// After an error in a single sample: skips that sample, and returns its ordinal. `None` if reading cannot
    /// continue.
    fn pass_failed(&mut self) -> Option<u64> {
        None
    }

    /// True if the next sample is known not to have arrived: a reader should then pass on those that it has.
    fn would_wait(&self) -> bool {
        false
    }
}

/// The result of an attempt to read one more sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// A sample was read.
    Sample,
    /// There are no more samples.
    End,
}

/// A position between two samples of a stream. The ordinal alone identifies it; the rest makes it faster to reach.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// Ordinal of the next sample, whichever reader owns it.
    pub ordinal: u64,
    /// Number of the file (or pipe, or program) that contains it; at the end of the stream, that of the last one.
    pub source: u64,
    /// Ordinal of the first sample of that source.
    pub first_of_source: u64,
    /// Offset of the next sample in that source, in uncompressed bytes.
    pub offset: u64,
}
