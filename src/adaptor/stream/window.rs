//! [`StreamWindow`]: consecutive samples of a stream as one sample.

use super::peeked::Peeked;
use crate::adaptor::window::stacked_field;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::{Result, SampleBlock, TypedField};

/// Consecutive samples of a stream, stacked: the result of
/// [`IterableDatasetExt::window`](super::IterableDatasetExt::window) and [`batch`](super::IterableDatasetExt::batch).
pub(super) struct StreamWindow<D> {
    dataset: D,
    /// Number of samples in a window.
    samples: usize,
    stride: usize,
}

impl<D> StreamWindow<D> {
    pub(super) fn new(dataset: D, samples: usize, stride: usize) -> Self {
        Self { dataset, samples, stride }
    }
}

impl<D: IterableDataset> IterableDataset for StreamWindow<D> {
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        let first = |window: u64| window.saturating_mul(self.stride as u64);
        let begin = match from.ordinal.checked_sub(1) {
            // A stream that can be read only once was read to the end of the previous window.
            Some(last) if !self.dataset.is_repeatable() => first(last).saturating_add(self.samples as u64),
            _ => first(from.ordinal),
        };
        let stream = Peeked::open(&self.dataset, StreamPart::WHOLE, begin, stop)?;
        let stacked = |typed: &TypedField| stacked_field(typed.field(), self.samples).map(TypedField::plain);
        let fields = stream.fields().iter().map(stacked).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(Windows {
            kept: vec![Vec::new(); fields.len()],
            fields,
            stream,
            part,
            samples: self.samples,
            stride: self.stride as u64,
            next: from.ordinal,
            begin: 0,
            count: 0,
            stop: stop.clone(),
        }))
    }

    fn is_repeatable(&self) -> bool {
        self.dataset.is_repeatable()
    }
}

struct Windows {
    stream: Peeked,
    fields: Vec<TypedField>,
    part: StreamPart,
    samples: usize,
    stride: u64,
    /// The ordinal of the earliest window that may come next.
    next: u64,
    /// By field, the bytes of the samples collected for the next window; their number; and the ordinal of the first.
    kept: Vec<Vec<u8>>,
    count: usize,
    begin: u64,
    stop: StopSignal,
}

impl Windows {
    /// Discards the samples before `first`, where a window begins.
    fn begin_at(&mut self, first: u64) {
        let dropped = first.saturating_sub(self.begin).min(self.count as u64) as usize;
        for (kept, typed) in self.kept.iter_mut().zip(&self.fields) {
            kept.drain(..dropped * (typed.field().bytes() / self.samples));
        }
        self.count -= dropped;
        self.begin = first;
    }
}

impl SampleStream for Windows {
    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        while !self.stop.is_set() {
            let Some(first) = self.next.checked_mul(self.stride) else { return Ok(Advance::End) };
            self.begin_at(first);
            if self.count == self.samples {
                self.next += 1;
                if self.part.owns(self.next - 1) {
                    let values: Vec<&[u8]> = self.kept.iter().map(Vec::as_slice).collect();
                    let position = StreamPosition { ordinal: self.next, ..StreamPosition::default() };
                    into.push(&self.fields, &values, position)?;
                    return Ok(Advance::Sample);
                }
                continue;
            }
            let wanted = first.saturating_add(self.count as u64);
            let Some(found) = self.stream.seek(wanted, into)? else { return Ok(Advance::End) };
            if found == wanted {
                self.kept.iter_mut().zip(self.stream.values()).for_each(|(kept, value)| kept.extend(value));
                self.count += 1;
            } else {
                // Skip every window that contains a skipped sample.
                self.next = found.div_ceil(self.stride);
            }
        }
        Ok(Advance::End)
    }

    fn would_wait(&self) -> bool {
        self.stream.would_wait()
    }
}
