//! [`Peeked`]: one of several streams that are read together, by ordinals.

use crate::dataset::{
    Advance, ConsumedSamples, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition, StreamSplit,
};
use crate::{Result, SampleBlock, TypedField};

/// A stream, and the sample of it that was read last.
pub(super) struct Peeked {
    stream: Box<dyn SampleStream>,
    read: SampleBlock,
    has_ended: bool,
}

impl Peeked {
    /// `part` of `dataset` from `ordinal` on: what lies before that is passed over, without being decoded where the format
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
            // What was read of it is gone.
            false => StreamPosition { ordinal, ..StreamPosition::default() },
        };
        let stream = dataset.stream(part, from, stop)?;
        let read = SampleBlock::new(stream.fields().len());
        Ok(Self { stream, read, has_ended: false })
    }

    pub(super) fn fields(&self) -> &[TypedField] {
        self.stream.fields()
    }

    /// The ordinal of the sample that was read last.
    fn ordinal(&self) -> Option<u64> {
        (!self.read.is_empty()).then(|| self.read.position(0).ordinal.saturating_sub(1))
    }

    /// Reads on to the first sample whose ordinal is not below `ordinal`, and says which that is; nothing at the end. What is
    /// left out on the way is told `into`.
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

    /// The bytes of each field of the sample that was read last.
    pub(super) fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.fields().len()).map(|field| self.read.value(field, 0))
    }

    pub(super) fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
