//! [`StreamZip`]: two streams side by side.

use super::peeked::Peeked;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::{Error, Result, SampleBlock, TypedField};

/// The samples of two streams side by side: the result of [`IterableDatasetExt::zip`](super::IterableDatasetExt::zip).
pub(super) struct StreamZip<A, B> {
    first: A,
    second: B,
}

impl<A, B> StreamZip<A, B> {
    pub(super) fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: IterableDataset, B: IterableDataset> IterableDataset for StreamZip<A, B> {
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        let first = Peeked::open(&self.first, part.clone(), from.ordinal, stop)?;
        let second = Peeked::open(&self.second, part, from.ordinal, stop)?;
        let has = |name: &str| first.fields().iter().any(|typed| typed.field().name() == name);
        if let Some(typed) = second.fields().iter().find(|typed| has(typed.field().name())) {
            let reason = format!("both streams have a field `{}`; rename it with `map`", typed.field().name());
            return Err(Error::invalid("other", reason));
        }
        let fields = first.fields().iter().chain(second.fields()).cloned().collect();
        Ok(Box::new(Zipped { first, second, fields, next: from.ordinal }))
    }

    fn is_repeatable(&self) -> bool {
        self.first.is_repeatable() && self.second.is_repeatable()
    }
}

struct Zipped {
    first: Peeked,
    second: Peeked,
    fields: Vec<TypedField>,
    /// The lowest ordinal that may come next.
    next: u64,
}

impl SampleStream for Zipped {
    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        // A sample that one of the two streams skipped is in neither.
        let ordinal = loop {
            let Some(first) = self.first.seek(self.next, into)? else { return Ok(Advance::End) };
            let Some(second) = self.second.seek(first, into)? else { return Ok(Advance::End) };
            if first == second {
                break first;
            }
            self.next = second;
        };
        self.next = ordinal + 1;
        let values: Vec<&[u8]> = self.first.values().chain(self.second.values()).collect();
        into.push(&self.fields, &values, StreamPosition { ordinal: self.next, ..StreamPosition::default() })?;
        Ok(Advance::Sample)
    }

    fn would_wait(&self) -> bool {
        self.first.would_wait() || self.second.would_wait()
    }
}
