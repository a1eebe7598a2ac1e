//! The trait [`IterableDataset`]: samples one after the other, without an index.

use serde::{Deserialize, Serialize};

use super::format::{SampleBlock, TypedField};
use super::{StopSignal, StreamPart};
use crate::Result;

/// Samples that can only be read in their order.
///
/// # Contract
/// - The samples have *ordinals*, from 0 on, in every pass the same: `part` says which of them are read, and what it leaves
///   out is passed over as cheaply as can be, without being decoded.
/// - Reading ends soon after `stop` was set, whatever it waits for.
/// - A dataset that can be read once only says so in [`is_repeatable`](Self::is_repeatable).
pub trait IterableDataset: Send + Sync {
    /// Begins a pass, behind what led to `from`.
    ///
    /// # Errors
    /// What is read can't be opened, or has no such position.
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>>;

    /// True if a second pass finds the same samples, and two passes at once each find all of them.
    fn is_repeatable(&self) -> bool {
        true
    }
}

/// One pass over an [`IterableDataset`]. One thread at a time reads it.
pub trait SampleStream: Send {
    /// The fields of all samples.
    fn fields(&self) -> &[TypedField];

    /// Reads the next sample of its part, behind those in `into`.
    ///
    /// # Errors
    /// What lies underneath can't be read, or is damaged. Unless [`pass_failed`](Self::pass_failed) says otherwise, what is
    /// asked for after that is unspecified.
    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance>;

    /// After an error that was about one sample only: passes over that sample, and returns its ordinal. `None` if reading
    /// cannot continue.
    fn pass_failed(&mut self) -> Option<u64> {
        None
    }

    /// True if it is known that the next sample has not arrived yet: a reader with samples at hand should pass them on.
    fn would_wait(&self) -> bool {
        false
    }
}

/// What came of the attempt to read one more sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// It was read.
    Sample,
    /// There is none.
    End,
}

/// A place between two samples of a stream. The ordinal alone says which; the rest says how to get there sooner.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// That of the next sample, of any reader.
    pub ordinal: u64,
    /// The number of the file (or pipe, or program) that it is in, or behind whose last one it would be.
    pub source: u64,
    /// The ordinal of the first sample of that one.
    pub first_of_source: u64,
    /// Where in that one the next sample begins, in bytes, unpacked.
    pub offset: u64,
}
