//! [`StreamMap`]: samples that a closure makes from other samples.

use std::sync::Arc;

use super::StreamSample;
use super::peeked::Peeked;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::{Result, SampleBlock, TypedField};

/// The samples that a closure makes from those of a stream: the result of
/// [`IterableDatasetExt::map`](super::IterableDatasetExt::map).
pub(super) struct StreamMap<D, F> {
    dataset: D,
    fields: Arc<Vec<TypedField>>,
    map: Arc<F>,
}

impl<D, F> StreamMap<D, F> {
    pub(super) fn new(dataset: D, fields: Vec<TypedField>, map: F) -> Self {
        Self { dataset, fields: Arc::new(fields), map: Arc::new(map) }
    }
}

impl<D, F> IterableDataset for StreamMap<D, F>
where
    D: IterableDataset,
    F: Fn(&StreamSample<'_>, &mut [Vec<u8>]) -> Result<()> + Send + Sync + 'static,
{
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        let stream = Peeked::new(self.dataset.stream(part, from, stop)?);
        let values = vec![Vec::new(); self.fields.len()];
        let (fields, map) = (Arc::clone(&self.fields), Arc::clone(&self.map));
        Ok(Box::new(Mapped { stream, values, fields, map }))
    }

    fn is_repeatable(&self) -> bool {
        self.dataset.is_repeatable()
    }
}

struct Mapped<F> {
    stream: Peeked,
    /// The values made from the last sample that was read.
    values: Vec<Vec<u8>>,
    fields: Arc<Vec<TypedField>>,
    map: Arc<F>,
}

impl<F> SampleStream for Mapped<F>
where
    F: Fn(&StreamSample<'_>, &mut [Vec<u8>]) -> Result<()> + Send + Sync,
{
    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        if self.stream.advance(into)? == Advance::End {
            return Ok(Advance::End);
        }
        self.values.iter_mut().for_each(Vec::clear);
        let sample = self.stream.sample();
        sample.catch(|| (self.map)(&sample, &mut self.values))?;
        let values: Vec<&[u8]> = self.values.iter().map(Vec::as_slice).collect();
        into.push(&self.fields, &values, self.stream.position())?;
        Ok(Advance::Sample)
    }

    fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
