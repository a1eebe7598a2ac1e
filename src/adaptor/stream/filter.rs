//! [`StreamFilter`]: the samples that a closure accepts.

use std::sync::Arc;

use super::StreamSample;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::{Result, SampleBlock, TypedField};

/// The samples of a stream that a closure accepts: the result of
/// [`IterableDatasetExt::filter`](super::IterableDatasetExt::filter).
pub struct StreamFilter<D, F> {
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
        let stream = self.dataset.stream(part, from, stop)?;
        let read = SampleBlock::new(stream.fields().len());
        Ok(Box::new(Filtered { stream, read, is_kept: Arc::clone(&self.is_kept), stop: stop.clone() }))
    }

    fn is_repeatable(&self) -> bool {
        self.dataset.is_repeatable()
    }
}

struct Filtered<F> {
    stream: Box<dyn SampleStream>,
    /// The last sample that was read.
    read: SampleBlock,
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
            self.read.clear();
            let advance = self.stream.advance(&mut self.read);
            self.read.left_out().iter().for_each(|line| into.leave_out(line.clone()));
            if advance? == Advance::End {
                return Ok(Advance::End);
            }
            let fields = self.stream.fields();
            let sample = StreamSample::new(fields, &self.read, 0);
            if sample.catch(|| (self.is_kept)(&sample))? {
                let values: Vec<&[u8]> = (0..fields.len()).map(|field| self.read.value(field, 0)).collect();
                into.push(fields, &values, self.read.position(0))?;
                return Ok(Advance::Sample);
            }
        }
        Ok(Advance::End)
    }

    fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
