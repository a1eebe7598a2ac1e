//! [`StreamTake`]: the beginning of a stream.

use super::peeked::Peeked;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::{Result, SampleBlock, TypedField};

/// Number of ordinals to search for the next sample of a part.
const LOOK: u64 = 4096;

/// The samples of a stream below some ordinal: the result of
/// [`IterableDatasetExt::take`](super::IterableDatasetExt::take).
pub(super) struct StreamTake<D> {
    dataset: D,
    samples: u64,
}

impl<D> StreamTake<D> {
    pub(super) fn new(dataset: D, samples: u64) -> Self {
        Self { dataset, samples }
    }
}

impl<D: IterableDataset> IterableDataset for StreamTake<D> {
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        let stream = Peeked::new(self.dataset.stream(part.clone(), from, stop)?);
        Ok(Box::new(Taken { stream, part, next: from.ordinal, samples: self.samples }))
    }

    fn is_repeatable(&self) -> bool {
        self.dataset.is_repeatable()
    }
}

struct Taken {
    stream: Peeked,
    part: StreamPart,
    /// The ordinal after the last sample that was read.
    next: u64,
    samples: u64,
}

impl Taken {
    /// True if one of the remaining samples may belong to this part; otherwise waiting for one would be futile.
    fn has_own_samples_left(&self) -> bool {
        let end = self.samples.min(self.next.saturating_add(LOOK));
        end < self.samples || (self.next..end).any(|ordinal| self.part.owns(ordinal))
    }
}

impl SampleStream for Taken {
    fn fields(&self) -> &[TypedField] {
        self.stream.fields()
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        if !self.has_own_samples_left() {
            return Ok(Advance::End);
        }
        if self.stream.advance(into)? == Advance::End {
            return Ok(Advance::End);
        }
        self.next = self.stream.position().ordinal;
        if self.next > self.samples {
            return Ok(Advance::End);
        }
        self.stream.copy_to(into)?;
        Ok(Advance::Sample)
    }

    fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
