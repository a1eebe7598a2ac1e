//! [`ShuffledStream`]: a pass over a stream through a shuffle buffer, which knows where it could begin again.

use std::collections::VecDeque;
use std::time::Duration;

use crate::memory::Slab;
use crate::state::{ShuffledOrder, ShuffledPlace};
use crate::{
    Batch, BufferPosition, Collate, Error, ReadAhead, Result, ShuffleBuffer, ShuffledSamples, StreamPosition,
    StreamState,
};

/// So many samples lie between two places where reading may begin again.
const MARK_EVERY: u64 = 1024;

pub(super) struct ShuffledStream {
    order: ShuffledOrder,
    buffer: ShuffleBuffer,
    samples: ShuffledSamples,
    /// How many samples had been read, and where that was: from the last one before all samples that are held on.
    marks: VecDeque<(u64, StreamPosition)>,
}

impl ShuffledStream {
    /// A pass from `position` on, which holds nothing.
    pub(super) fn new(order: ShuffledOrder, position: StreamPosition) -> Self {
        Self::read_up_to(order, 0, position)
    }

    fn read_up_to(order: ShuffledOrder, read: u64, position: StreamPosition) -> Self {
        let ShuffledOrder { bound, seed, epoch, rank, worker } = order;
        Self {
            order,
            buffer: ShuffleBuffer::new(bound, seed, epoch, rank, worker),
            samples: ShuffledSamples::new(read, position, MARK_EVERY, read.saturating_add(MARK_EVERY)),
            marks: VecDeque::from([(read, position)]),
        }
    }

    /// One that goes on where `place` was saved, with `ahead` at `position`.
    ///
    /// # Errors
    /// Those of `ahead`; [`Error::State`] when the stream ends before that.
    pub(super) fn resume(
        place: &ShuffledPlace,
        position: StreamPosition,
        ahead: &mut ReadAhead,
        patience: Duration,
    ) -> Result<Self> {
        let mut stream = Self::read_up_to(place.order, place.since, position);
        let read = place.read;
        let is_there = loop {
            if let Some(is_there) = stream.samples.read_again(ahead, read, &place.held, patience)? {
                break is_there;
            }
        };
        if !is_there {
            let reason = format!("{read} samples had been read when it was saved, and the stream has fewer now");
            return Err(Error::State { reason });
        }
        stream.buffer.resume(&BufferPosition { read, held: place.held.clone() }, &stream.samples.sizes())?;
        if place.has_ended {
            stream.samples.see_end();
        }
        stream.forget_marks();
        Ok(stream)
    }

    /// Draws up to `samples` samples; nothing when `patience` runs out first.
    ///
    /// # Errors
    /// Those of `ahead`.
    pub(super) fn draw(&mut self, ahead: &mut ReadAhead, samples: usize, patience: Duration) -> Result<Option<usize>> {
        let drawn = self.samples.draw(ahead, &mut self.buffer, samples, patience)?;
        self.forget_marks();
        Ok(drawn)
    }

    /// The batch of what was drawn.
    ///
    /// # Errors
    /// There is no memory for it, or it can't be laid out.
    pub(super) fn batch(&mut self, ahead: &ReadAhead, collate: &dyn Collate, slab: &Slab) -> Result<Batch> {
        Ok(self.samples.batch(ahead.schema(), collate, slab)?.0)
    }

    /// Keeps of the places that were passed what [`state`](Self::state) may need.
    fn forget_marks(&mut self) {
        let new = self.samples.marks();
        if new.is_empty() {
            return; // to look for the oldest sample takes time
        }
        self.marks.extend(new);
        let kept = self.last_mark();
        self.marks.drain(..kept);
    }

    /// Which of the marks is the last one before all samples that are held.
    fn last_mark(&self) -> usize {
        let oldest = self.buffer.oldest().unwrap_or(self.buffer.read());
        self.marks.iter().rposition(|(read, _)| *read <= oldest).unwrap_or(0)
    }

    /// Where the consumer is, between two batches.
    pub(super) fn state(&self) -> StreamState {
        let (since, position) = self.marks[self.last_mark()];
        let BufferPosition { read, held } = self.buffer.position();
        let (.., has_ended) = self.samples.place();
        StreamState::new(position, Some(ShuffledPlace { order: self.order, since, read, held, has_ended }))
    }
}
