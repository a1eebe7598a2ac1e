//! [`ShuffledSamples`]: the samples of a stream that are held in a shuffle buffer, as bytes.

use std::collections::HashMap;
use std::time::Duration;

use super::{Batch, ReadAhead};
use crate::collate::Collate;
use crate::dataset::StreamPosition;
use crate::memory::Slab;
use crate::sampler::ShuffleBuffer;
use crate::{Error, Result, SampleBlock, Schema};

/// Number of samples to wait for at once.
const AT_ONCE: usize = 1024;

/// The samples of a [`ShuffleBuffer`]'s slots: those that were read and not yielded yet. If the buffer counts bytes, it
/// counts those of a sample's values.
///
/// Each sample is a copy of its bytes, so the memory it was read with is freed, and only the held samples take memory.
///
/// # Example
/// ```
/// use std::{sync::Arc, time::Duration};
/// use sluicegate::internal::{ReadAhead, ShuffleBuffer, ShuffledSamples, Slab};
/// use sluicegate::{BufferBound, StackSamples, StreamDataset, StreamFormat, StreamPart, StreamPosition, StreamSource};
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 8".into())], StreamFormat::json_lines(None));
/// let mut ahead = ReadAhead::new(Arc::new(lines), StreamPart::WHOLE, StreamPosition::default(), 1 << 20);
/// let mut buffer = ShuffleBuffer::new(BufferBound::of_samples(3)?, 7, 0, 0, 0);
/// let mut samples = ShuffledSamples::new(0, StreamPosition::default(), 1000, 0);
/// while samples.draw(&mut ahead, &mut buffer, 9, Duration::from_secs(1))?.is_none() {}
/// let (batch, ordinals) = samples.batch(ahead.schema(), &StackSamples, &Slab::new(1))?;
/// assert_eq!(ordinals, [1, 3, 2, 0, 5, 6, 7, 4]);
/// assert_eq!(batch.sample(0, 0), b"2");
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct ShuffledSamples {
    /// By slot.
    held: Vec<Held>,
    /// The samples of the next batch.
    drawn: Vec<Held>,
    /// Samples that are being read again, with their slots.
    again: Vec<(usize, Held)>,
    read: u64,
    position: StreamPosition,
    has_ended: bool,
    every: u64,
    next_mark: u64,
    marks: Vec<(u64, StreamPosition)>,
}

struct Held {
    ordinal: u64,
    bytes: Box<[u8]>,
    /// The end of each field's value in `bytes`.
    ends: Box<[usize]>,
}

impl Held {
    fn copied(block: &SampleBlock, row: usize, fields: usize) -> Self {
        let mut bytes = Vec::with_capacity((0..fields).map(|field| block.value(field, row).len()).sum());
        let ends = (0..fields).map(|field| {
            bytes.extend_from_slice(block.value(field, row));
            bytes.len()
        });
        let ends = ends.collect();
        Self { ordinal: block.position(row).ordinal.saturating_sub(1), bytes: bytes.into(), ends }
    }

    fn value(&self, field: usize) -> &[u8] {
        let start = field.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[field]]
    }
}

impl ShuffledSamples {
    /// Returns an empty set for a stream from which `read` samples were read, up to `position`.
    ///
    /// Records its positions at `next_mark` and then after every `every` samples, until [`marks`](Self::marks) returns
    /// them.
    #[must_use]
    pub fn new(read: u64, position: StreamPosition, every: u64, next_mark: u64) -> Self {
        let (held, drawn, again, marks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { held, drawn, again, read, position, has_ended: false, every: every.max(1), next_mark, marks }
    }

    /// Draws up to `samples` samples with `buffer`, reading as needed. Returns their number, or None if `limit` has
    /// passed. There are fewer at the end of the stream.
    ///
    /// # Errors
    /// Those of `ahead`; [`Error::State`] if the number of samples that `buffer` tracks differs from the number held.
    pub fn draw(
        &mut self,
        ahead: &mut ReadAhead,
        buffer: &mut ShuffleBuffer,
        samples: usize,
        limit: Duration,
    ) -> Result<Option<usize>> {
        // Different counts mean that the buffer was filled elsewhere: its slots refer to other samples, or to none.
        let (decides, held) = (buffer.read().saturating_sub(buffer.yielded()), self.held.len());
        if decides != held as u64 {
            let reason = format!("the shuffle buffer decides about {decides} samples, but {held} are held");
            return Err(Error::State { reason });
        }
        while self.drawn.len() < samples {
            while !self.has_ended && !buffer.is_full() {
                let needed = buffer.room().saturating_add(samples - self.drawn.len() - 1);
                let Some(held) = self.read_one(ahead, needed, limit)? else { return Ok(None) };
                if let Some(held) = held {
                    buffer.put(held.bytes.len() as u64);
                    self.held.push(held);
                }
            }
            let Some(slot) = buffer.take() else { break };
            self.drawn.push(self.held.swap_remove(slot));
        }
        Ok(Some(self.drawn.len()))
    }

    /// Continues reading until `read` samples were read, and keeps those with ordinals `held` in their slots. Returns
    /// false if the stream ends before that, and None if `limit` has passed.
    ///
    /// # Errors
    /// Those of `ahead`.
    pub fn read_again(
        &mut self,
        ahead: &mut ReadAhead,
        read: u64,
        held: &[u64],
        limit: Duration,
    ) -> Result<Option<bool>> {
        let slots: HashMap<u64, usize> = held.iter().enumerate().map(|(slot, &ordinal)| (ordinal, slot)).collect();
        while self.read < read {
            let (ordinal, needed) = (self.read, usize::try_from(read - self.read).unwrap_or(usize::MAX));
            let Some(sample) = self.read_one(ahead, needed, limit)? else { return Ok(None) };
            let Some(sample) = sample else { return Ok(Some(false)) };
            if let Some(&slot) = slots.get(&ordinal) {
                self.again.push((slot, sample));
            }
        }
        self.again.sort_unstable_by_key(|(slot, _)| *slot);
        self.held = self.again.drain(..).map(|(_, sample)| sample).collect();
        Ok(Some(true))
    }

    /// Returns the bytes of each held sample, by slot, as [`ShuffleBuffer::resume`] needs them.
    #[must_use]
    pub fn sizes(&self) -> Vec<u64> {
        self.held.iter().map(|held| held.bytes.len() as u64).collect()
    }

    /// Records that the stream ended after the samples read so far.
    pub fn see_end(&mut self) {
        self.mark();
        self.has_ended = true;
    }

    /// Returns the next sample, if there is one before the end; the outer None means that `limit` has passed.
    fn read_one(&mut self, ahead: &mut ReadAhead, needed: usize, limit: Duration) -> Result<Option<Option<Held>>> {
        self.mark();
        if !ahead.has_sample() && ahead.wait(needed.clamp(1, AT_ONCE), limit)?.is_none() && !ahead.has_sample() {
            return Ok(None);
        }
        let fields = ahead.schema().fields().len();
        let Some((block, row)) = ahead.next() else {
            self.has_ended = true;
            return Ok(Some(None));
        };
        let held = Held::copied(block, row, fields);
        self.position = block.position(row);
        self.read += 1;
        ahead.take(1);
        Ok(Some(Some(held)))
    }

    fn mark(&mut self) {
        if self.read == self.next_mark {
            self.marks.push((self.read, self.position));
            self.next_mark = (self.read / self.every + 1) * self.every;
        }
    }

    /// Returns the batch of the drawn samples, laid out by `collate` in a slot of `slab`, and the ordinals of its
    /// samples in the stream. The drawn samples are then forgotten.
    ///
    /// # Errors
    /// If there is no memory for them, or they cannot be laid out.
    pub fn batch(&mut self, schema: &Schema, collate: &dyn Collate, slab: &Slab) -> Result<(Batch, Vec<usize>)> {
        let drawn = std::mem::take(&mut self.drawn);
        let batch = Batch::gather(schema, drawn.len(), collate, slab, |place, field| drawn[place].value(field))?;
        Ok((batch, drawn.iter().map(|held| usize::try_from(held.ordinal).unwrap_or(usize::MAX)).collect()))
    }

    /// Returns how many samples were read, the stream position after them, and whether the stream has ended.
    #[must_use]
    pub fn place(&self) -> (u64, StreamPosition, bool) {
        (self.read, self.position, self.has_ended)
    }

    /// Returns the marks passed since the last call: how many samples had been read, and the stream position.
    pub fn marks(&mut self) -> Vec<(u64, StreamPosition)> {
        std::mem::take(&mut self.marks)
    }
}
