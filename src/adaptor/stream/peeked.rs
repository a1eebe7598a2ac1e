//! [`Peeked`]: a stream, and the last sample that was read from it.

use super::StreamSample;
use crate::dataset::{
    Advance, ConsumedSamples, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition, StreamSplit,
};
use crate::{Result, SampleBlock, TypedField};

/// A stream, and the last sample that was read from it.
pub(super) struct Peeked {
    stream: Box<dyn SampleStream>,
    read: SampleBlock,
    has_ended: bool,
}

impl Peeked {
    pub(super) fn new(stream: Box<dyn SampleStream>) -> Self {
        let read = SampleBlock::new(stream.fields().len());
        Self { stream, read, has_ended: false }
    }

    /// Opens `part` of `dataset` from `ordinal` on: earlier samples are skipped, without being decoded if the format
    /// allows it.
    pub(super) fn open(
        dataset: &dyn IterableDataset,
        mut part: StreamPart,
        ordinal: u64,
        stop: &StopSignal,
    ) -> Result<Self> {
        let from = match dataset.is_repeatable() {
            true => {
                let split = StreamSplit::WHOLE;
                part.consumed.push(ConsumedSamples { split, until: vec![ordinal], held: Vec::new() });
                StreamPosition::default()
            }
            // The part that was already read cannot be read again.
            false => StreamPosition { ordinal, ..StreamPosition::default() },
        };
        Ok(Self::new(dataset.stream(part, from, stop)?))
    }

    pub(super) fn fields(&self) -> &[TypedField] {
        self.stream.fields()
    }

    /// Reads to the first sample whose ordinal is at least `ordinal` and returns that ordinal, or None at the end.
    /// Items skipped on the way are reported to `into`.
    pub(super) fn seek(&mut self, ordinal: u64, into: &mut SampleBlock) -> Result<Option<u64>> {
        loop {
            let last = (!self.read.is_empty()).then(|| self.sample().ordinal());
            if let Some(found) = last.filter(|&found| found >= ordinal) {
                return Ok(Some(found));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.has_ended = self.advance(into)? == Advance::End;
        }
    }

    /// Reads the next sample. Items skipped on the way are reported to `into`.
    pub(super) fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        self.read.clear();
        let advance = self.stream.advance(&mut self.read);
        self.read.left_out().iter().for_each(|line| into.leave_out(line.clone()));
        advance
    }

    /// Returns the last sample that was read.
    pub(super) fn sample(&self) -> StreamSample<'_> {
        StreamSample::new(self.fields(), &self.read)
    }

    /// Returns the position after the last sample that was read.
    pub(super) fn position(&self) -> StreamPosition {
        self.read.position(0)
    }

    /// Appends the last sample that was read to `into`.
    pub(super) fn copy_to(&self, into: &mut SampleBlock) -> Result<()> {
        into.push(self.fields(), &self.values().collect::<Vec<_>>(), self.position())
    }

    /// Returns the bytes of each field of the last sample that was read.
    pub(super) fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.fields().len()).map(|field| self.read.value(field, 0))
    }

    pub(super) fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
