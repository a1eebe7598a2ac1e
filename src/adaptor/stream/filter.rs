//! [`StreamFilter`]: the samples that a closure accepts.

use std::sync::Arc;

use super::StreamSample;
use super::peeked::Peeked;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::{Result, SampleBlock, TypedField};

/// The samples of a stream that a closure accepts: the result of
/// [`IterableDatasetExt::filter`](super::IterableDatasetExt::filter).
pub(super) struct StreamFilter<D, F> {
    dataset: D,
    is_kept: Arc<F>,
}

impl<D, F> StreamFilter<D, F> {
    pub(super) fn new(dataset: D, is_kept: F) -> Self {
        Self { dataset, is_kept: Arc::new(is_kept) }
    }
}

impl<D, F> IterableDataset for StreamFilter<D, F>
where
    D: IterableDataset,
    F: Fn(&StreamSample<'_>) -> Result<bool> + Send + Sync + 'static,
{
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        let stream = Peeked::new(self.dataset.stream(part, from, stop)?);
        Ok(Box::new(Filtered { stream, is_kept: Arc::clone(&self.is_kept), stop: stop.clone() }))
    }

    fn is_repeatable(&self) -> bool {
        self.dataset.is_repeatable()
    }
}

struct Filtered<F> {
    stream: Peeked,
    is_kept: Arc<F>,
    stop: StopSignal,
}

impl<F> SampleStream for Filtered<F>
where
    F: Fn(&StreamSample<'_>) -> Result<bool> + Send + Sync,
{
    fn fields(&self) -> &[TypedField] {
        self.stream.fields()
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        // An endless stream may contain no sample that is kept.
        while !self.stop.is_set() {
            if self.stream.advance(into)? == Advance::End {
                return Ok(Advance::End);
            }
            let sample = self.stream.sample();
            if sample.catch(|| (self.is_kept)(&sample))? {
                self.stream.copy_to(into)?;
                return Ok(Advance::Sample);
            }
        }
        Ok(Advance::End)
    }

    fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
