//! [`Peeked`]: one of several streams that are read together by ordinal.

use crate::dataset::{
    Advance, ConsumedSamples, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition, StreamSplit,
};
use crate::{Result, SampleBlock, TypedField};

/// A stream, and its last sample that was read.
pub(super) struct Peeked {
    stream: Box<dyn SampleStream>,
    read: SampleBlock,
    has_ended: bool,
}

impl Peeked {
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
        let stream = dataset.stream(part, from, stop)?;
        let read = SampleBlock::new(stream.fields().len());
        Ok(Self { stream, read, has_ended: false })
    }

    pub(super) fn fields(&self) -> &[TypedField] {
        self.stream.fields()
    }

    /// Returns the ordinal of the last sample that was read.
    fn ordinal(&self) -> Option<u64> {
        (!self.read.is_empty()).then(|| self.read.position(0).ordinal.saturating_sub(1))
    }

    /// Reads to the first sample whose ordinal is at least `ordinal` and returns that ordinal, or None at the end.
    /// Items skipped on the way are reported to `into`.
    pub(super) fn seek(&mut self, ordinal: u64, into: &mut SampleBlock) -> Result<Option<u64>> {
        loop {
            if let Some(found) = self.ordinal().filter(|&found| found >= ordinal) {
                return Ok(Some(found));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.read.clear();
            let advance = self.stream.advance(&mut self.read);
            self.read.left_out().iter().for_each(|line| into.leave_out(line.clone()));
            self.has_ended = advance? == Advance::End;
        }
    }

    /// Returns the bytes of each field of the last sample that was read.
    pub(super) fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.fields().len()).map(|field| self.read.value(field, 0))
    }

    pub(super) fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
