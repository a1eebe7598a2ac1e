//! [`StreamSkip`]: a stream without its beginning.

use crate::Result;
use crate::dataset::{
    ConsumedSamples, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition, StreamSplit,
};

/// The samples of a stream from some ordinal on: the result of
/// [`IterableDatasetExt::skip`](super::IterableDatasetExt::skip).
pub(super) struct StreamSkip<D> {
    dataset: D,
    samples: u64,
}

impl<D> StreamSkip<D> {
    pub(super) fn new(dataset: D, samples: u64) -> Self {
        Self { dataset, samples }
    }
}

impl<D: IterableDataset> IterableDataset for StreamSkip<D> {
    fn stream(&self, mut part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        // Samples that count as consumed are skipped, whichever consumer they are attributed to.
        let consumed = ConsumedSamples { split: StreamSplit::WHOLE, until: vec![self.samples], held: Vec::new() };
        part.consumed.push(consumed);
        self.dataset.stream(part, from, stop)
    }

    fn is_repeatable(&self) -> bool {
        self.dataset.is_repeatable()
    }
}
