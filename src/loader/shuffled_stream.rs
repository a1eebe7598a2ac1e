//! [`ShuffledStream`]: a pass over a stream through a shuffle buffer, with positions where reading can restart.

use std::collections::VecDeque;
use std::time::Duration;

use crate::memory::Slab;
use crate::pipeline::{ReadAhead, ShuffledSamples};
use crate::sampler::{BufferPosition, ShuffleBuffer};
use crate::state::{ShuffledOrder, ShuffledPlace};
use crate::{Batch, Collate, Error, Result, StreamPart, StreamPosition};

/// Number of samples between two positions where reading can restart.
const MARK_EVERY: u64 = 1024;

pub(super) struct ShuffledStream {
    order: ShuffledOrder,
    buffer: ShuffleBuffer,
    samples: ShuffledSamples,
    /// Positions where reading can restart, each with the number of samples that had been read: from the last one
    /// before all held samples on.
    marks: VecDeque<(u64, StreamPosition)>,
}

impl ShuffledStream {
    /// Returns a pass over `part` from `position` on that holds no samples; `read` samples had been read up to there.
    pub(super) fn new(order: ShuffledOrder, part: &StreamPart, read: u64, position: StreamPosition) -> Self {
        let ShuffledOrder { bound, seed, epoch } = order;
        Self {
            order,
            buffer: ShuffleBuffer::new(bound, seed, epoch, part.split.rank, part.worker),
            samples: ShuffledSamples::new(read, position, MARK_EVERY, read.saturating_add(MARK_EVERY)),
            marks: VecDeque::from([(read, position)]),
        }
    }

    /// Returns a pass that resumes where `place` was saved, with `ahead` at `position`.
    ///
    /// # Errors
    /// Those of `ahead`; [`Error::State`] if the stream ends before that.
    pub(super) fn resume(
        place: &ShuffledPlace,
        part: &StreamPart,
        position: StreamPosition,
        ahead: &mut ReadAhead,
        patience: Duration,
    ) -> Result<Self> {
        let mut stream = Self::new(place.order, part, place.since, position);
        let read = place.read;
        let is_restored = loop {
            if let Some(is_restored) = stream.samples.read_again(ahead, read, &place.held, patience)? {
                break is_restored;
            }
        };
        if !is_restored {
            let reason = format!("{read} samples had been read when it was saved, but the stream now has fewer");
            return Err(Error::State { reason });
        }
        stream.buffer.resume(&BufferPosition { read, held: place.held.clone() }, &stream.samples.sizes())?;
        if place.has_ended {
            stream.samples.see_end();
        }
        stream.forget_marks();
        Ok(stream)
    }

    /// Draws up to `samples` samples; returns None if `patience` runs out first.
    ///
    /// # Errors
    /// Those of `ahead`.
    pub(super) fn draw(&mut self, ahead: &mut ReadAhead, samples: usize, patience: Duration) -> Result<Option<usize>> {
        let drawn = self.samples.draw(ahead, &mut self.buffer, samples, patience)?;
        self.forget_marks();
        Ok(drawn)
    }

    /// Returns the batch of the drawn samples.
    ///
    /// # Errors
    /// If there is no memory for it, or it cannot be laid out.
    pub(super) fn batch(&mut self, ahead: &ReadAhead, collate: &dyn Collate, slab: &Slab) -> Result<Batch> {
        Ok(self.samples.batch(ahead.schema(), collate, slab)?.0)
    }

    /// Drops the marks that [`state`](Self::state) can no longer need.
    fn forget_marks(&mut self) {
        let new = self.samples.marks();
        if new.is_empty() {
            return; // finding the oldest sample takes time
        }
        self.marks.extend(new);
        let kept = self.last_mark();
        self.marks.drain(..kept);
    }

    /// Returns the number of the last mark before all held samples.
    fn last_mark(&self) -> usize {
        let oldest = self.buffer.oldest().unwrap_or(self.buffer.read());
        self.marks.iter().rposition(|(read, _)| *read <= oldest).unwrap_or(0)
    }

    /// Returns the consumer's position between two batches: where reading restarts, and which samples are held.
    pub(super) fn place(&self) -> (StreamPosition, ShuffledPlace) {
        let (since, position) = self.marks[self.last_mark()];
        let BufferPosition { read, held } = self.buffer.position();
        let (.., has_ended) = self.samples.place();
        (position, ShuffledPlace { order: self.order, since, read, held, has_ended })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{BufferBound, StackSamples, StreamDataset, StreamFormat, StreamSource};

    #[test]
    fn positions_before_all_held_samples_are_dropped() -> Result<()> {
        let lines = StreamDataset::new(vec![StreamSource::Command("seq 40000".into())], StreamFormat::json_lines(None));
        let mut ahead = ReadAhead::new(Arc::new(lines), StreamPart::WHOLE, StreamPosition::default(), 1 << 20);
        let order = ShuffledOrder { bound: BufferBound::of_samples(500)?, seed: 7, epoch: 0 };
        let mut stream = ShuffledStream::new(order, &StreamPart::WHOLE, 0, StreamPosition::default());
        let slab = Slab::new(1);
        for _ in 0..400 {
            while stream.draw(&mut ahead, 100, Duration::from_secs(10))?.is_none() {}
            stream.batch(&ahead, &StackSamples, &slab)?;
            // There are 39 in all. A sample may wait without bound, but rarely waits for many buffer lengths.
            assert!(stream.marks.len() < 10, "{} places", stream.marks.len());
        }
        assert_eq!(stream.place().1.read, 40_000);
        Ok(())
    }
}
