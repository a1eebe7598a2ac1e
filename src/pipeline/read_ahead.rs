//! [`ReadAhead`]: a stream that a separate thread reads a bounded number of bytes ahead of its consumer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Batch;
use super::stream_pass::{StreamPass, StreamShare};
use super::stream_readers::Outcome;
use crate::collate::Collate;
use crate::dataset::{IterableDataset, StreamPart, StreamPosition};
use crate::memory::Slab;
use crate::{Error, Result, SampleBlock, Schema, TypedField};

/// The samples of one part of an [`IterableDataset`], in order. For one consumer.
///
/// The reading thread starts at the first wait. Dropping this stops it and closes everything that it reads from. A
/// forked child cannot continue reading. One thread can read several parts of a stream: see [`StreamPass`].
///
/// # Example
/// ```
/// use std::{sync::Arc, time::Duration};
/// use sluicegate::internal::{ReadAhead, Slab};
/// use sluicegate::{StackSamples, StreamDataset, StreamFormat, StreamPart, StreamPosition, StreamSource};
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::json_lines(None));
/// let mut ahead = ReadAhead::new(Arc::new(lines), StreamPart::WHOLE, StreamPosition::default(), 1 << 20);
/// while ahead.wait(4, Duration::from_secs(1))?.is_none() {}
/// let (batch, positions) = ahead.batch(4, &StackSamples, &Slab::new(1))?;
/// ahead.take(4);
/// assert_eq!((batch.samples(), batch.sample(0, 3), positions[3].ordinal), (4, b"4".as_slice(), 4));
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct ReadAhead {
    dataset: Arc<dyn IterableDataset>,
    part: StreamPart,
    from: StreamPosition,
    bytes_ahead: usize,
    /// The shared pass that this was created for, if any.
    pass: Option<StreamPass>,
    share: Option<StreamShare>,
    fields: Arc<Vec<TypedField>>,
    schema: Schema,
    /// Blocks that have arrived and were not taken completely, and the number of samples taken from the first one.
    blocks: VecDeque<OwnRows>,
    taken: usize,
    samples: usize,
    left_out: Vec<String>,
    has_ended: bool,
    /// The error, kept so that later calls fail, too.
    failure: Option<Failure>,
}

/// The samples of a block that belong to this part.
struct OwnRows {
    block: Arc<SampleBlock>,
    /// `None` for all of them.
    rows: Option<Vec<usize>>,
}

impl OwnRows {
    fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.block.len(), Vec::len)
    }

    fn row(&self, place: usize) -> usize {
        self.rows.as_ref().map_or(place, |rows| rows[place])
    }
}

/// A failure: the error itself until it was returned once, then its text.
enum Failure {
    New(Error),
    Told(String),
}

impl ReadAhead {
    /// Reads `part` of `dataset` from position `from` on, about `bytes_ahead` bytes ahead.
    pub fn new(dataset: Arc<dyn IterableDataset>, part: StreamPart, from: StreamPosition, bytes_ahead: usize) -> Self {
        Self {
            dataset,
            part,
            from,
            bytes_ahead,
            pass: None,
            share: None,
            fields: Arc::default(),
            schema: Schema::new([]),
            blocks: VecDeque::new(),
            taken: 0,
            samples: 0,
            left_out: Vec::new(),
            has_ended: false,
            failure: None,
        }
    }

    /// Like [`new`](Self::new), but joins `pass`, whose readers must all read the same `dataset`. If the pass has
    /// begun, or is for a different split, this reads by itself.
    pub fn shared(
        dataset: Arc<dyn IterableDataset>,
        part: StreamPart,
        from: StreamPosition,
        bytes_ahead: usize,
        pass: &StreamPass,
    ) -> Self {
        let share = pass.join(&part, from, bytes_ahead);
        Self { pass: Some(pass.clone()), share, ..Self::new(dataset, part, from, bytes_ahead) }
    }

    /// Returns the fields of the samples, known once the first sample or the end of the stream has arrived.
    #[must_use]
    pub fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    /// Returns the schema of the samples, known once their fields are.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Waits up to `limit` until `samples` samples or the end of the stream have arrived. Returns how many samples are
    /// available, or None if the time ran out.
    ///
    /// # Errors
    /// The stream's error, after all samples before it were taken; [`Error::State`] in a forked child, or if the stream
    /// failed before.
    pub fn wait(&mut self, samples: usize, limit: Duration) -> Result<Option<usize>> {
        if !self.is_ready(samples) {
            self.collect(samples, limit)?;
        }
        if self.samples == 0
            && let Some(failure) = self.failure.take()
        {
            let (error, reason) = match failure {
                Failure::New(error) => {
                    let reason = error.to_string();
                    (error, reason)
                }
                Failure::Told(reason) => {
                    (Error::State { reason: format!("the stream has already failed: {reason}") }, reason)
                }
            };
            self.failure = Some(Failure::Told(reason));
            return Err(error);
        }
        Ok(self.is_ready(samples).then_some(self.samples))
    }

    /// Waits like [`wait`](Self::wait); returns true if `wait` would now return at once, with samples or an error.
    pub fn has(&mut self, samples: usize, limit: Duration) -> bool {
        self.is_ready(samples) || self.collect(samples, limit).is_err() || self.is_ready(samples)
    }

    fn is_ready(&self, samples: usize) -> bool {
        self.samples >= samples || self.has_ended
    }

    fn collect(&mut self, samples: usize, limit: Duration) -> Result<()> {
        // A deadline that the clock cannot represent means no limit.
        let deadline = Instant::now().checked_add(limit);
        let mut in_hand = 0;
        while self.samples < samples {
            let awaited = samples - self.samples;
            let share = match self.share.take() {
                Some(share) => share,
                None => self.alone()?,
            };
            let share = self.share.insert(share);
            let arrival = share.receive(&self.dataset, awaited, in_hand, deadline, limit)?;
            if let (true, Some(fields)) = (self.fields.is_empty(), arrival.fields) {
                self.schema = Schema::new(fields.iter().map(|typed| typed.field().clone()).collect::<Vec<_>>());
                self.fields = fields;
            }
            let is_late = arrival.blocks.is_empty() && arrival.outcome.is_none();
            for (block, reports) in arrival.blocks {
                in_hand += self.add(block, reports);
            }
            match arrival.outcome {
                None if is_late => return Ok(()),
                None => {}
                Some(Outcome::Elsewhere(position)) => {
                    (self.from, self.share) = (position, None);
                }
                Some(outcome) => {
                    self.has_ended = true;
                    // Samples that arrived before the failure are returned first.
                    self.failure = if let Outcome::Failed(error) = outcome { Some(Failure::New(error)) } else { None };
                    return Ok(());
                }
            }
        }
        if let Some(share) = &self.share {
            share.rest();
        }
        Ok(())
    }

    /// Returns the only share of a separate pass for this reader.
    fn alone(&self) -> Result<StreamShare> {
        let pass = self.pass.as_ref().map_or_else(|| StreamPass::new(0), StreamPass::child)?;
        let share = pass.join(&self.part, self.from, self.bytes_ahead);
        share.ok_or_else(|| Error::State { reason: "a new pass rejected its reader".into() })
    }

    /// Keeps the samples of a block that belong to this part, and returns their approximate size in bytes.
    fn add(&mut self, block: Arc<SampleBlock>, reports: bool) -> usize {
        if reports {
            self.left_out.extend_from_slice(block.left_out());
        }
        let owns = |&row: &usize| {
            let ordinal = block.position(row).ordinal.saturating_sub(1);
            ordinal >= self.from.ordinal && self.part.owns(ordinal)
        };
        let rows: Vec<usize> = (0..block.len()).filter(owns).collect();
        let bytes = (block.bytes() * rows.len()).checked_div(block.len()).unwrap_or(0);
        self.samples += rows.len();
        if !rows.is_empty() {
            let rows = (rows.len() < block.len()).then_some(rows);
            self.blocks.push_back(OwnRows { block, rows });
        }
        bytes
    }

    /// Returns the next samples, which [`wait`](Self::wait) has reported as available, laid out by `collate` in a slot
    /// of `slab`, and the stream position after each. They remain the next samples until they are [taken](Self::take).
    ///
    /// # Errors
    /// If there is no memory for them, or they cannot be laid out.
    pub fn batch(&self, samples: usize, collate: &dyn Collate, slab: &Slab) -> Result<(Batch, Vec<StreamPosition>)> {
        let samples = samples.min(self.samples);
        let rows: Vec<(usize, usize)> = self
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(number, own)| {
                (if number == 0 { self.taken } else { 0 }..own.len()).map(move |place| (number, own.row(place)))
            })
            .take(samples)
            .collect();
        let value = |place: usize, field| {
            let (block, row) = rows[place];
            self.blocks[block].block.value(field, row)
        };
        let batch = Batch::gather(&self.schema, rows.len(), collate, slab, value)?;
        let positions = rows.iter().map(|&(block, row)| self.blocks[block].block.position(row)).collect();
        Ok((batch, positions))
    }

    /// True if a sample is available that was not taken.
    pub(super) fn has_sample(&self) -> bool {
        self.samples > 0
    }

    /// Returns the next sample, if there is one: its block, and its row in the block.
    pub(crate) fn next(&self) -> Option<(&SampleBlock, usize)> {
        self.blocks.front().map(|own| (&*own.block, own.row(self.taken)))
    }

    /// Takes `samples` samples.
    pub fn take(&mut self, samples: usize) {
        let samples = samples.min(self.samples);
        self.samples -= samples;
        self.taken += samples;
        while let Some(first) = self.blocks.front().filter(|first| first.len() <= self.taken) {
            self.taken -= first.len();
            self.blocks.pop_front();
        }
    }

    /// Returns one line for each item skipped since the last call.
    pub fn left_out(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_out)
    }
}
