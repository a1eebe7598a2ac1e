//! [`ReadAhead`]: a stream that a separate thread reads a bounded number of bytes ahead of its consumer.

use std::collections::VecDeque;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Batch;
use crate::collate::Collate;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::error::catch;
use crate::memory::Slab;
use crate::{Error, Result, SampleBlock, Schema, TypedField};

/// Samples are handed over in blocks of this many bytes, or sooner if the consumer is waiting.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCK_SAMPLES: usize = 1024;

/// A reading thread that is asked to stop does so within this time, unless a file system hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// The samples of one part of an [`IterableDataset`], in order. For one consumer.
///
/// The reading thread starts at the first wait, and stops when this is dropped; by then, everything that it read from
/// is closed. A forked child cannot continue it.
///
/// # Example
/// ```
/// use std::{sync::Arc, time::Duration};
/// use sluicegate::memory::Slab;
/// use sluicegate::{ReadAhead, StackSamples, StreamDataset, StreamFormat, StreamPart, StreamPosition, StreamSource};
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::JsonLines(None));
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
    thread: Option<Reading>,
    fields: Arc<Vec<TypedField>>,
    schema: Schema,
    /// Blocks that have arrived and were not taken, and how much of the first one was taken.
    blocks: VecDeque<SampleBlock>,
    taken: usize,
    samples: usize,
    left_out: Vec<String>,
    has_ended: bool,
    /// The error, kept for every later call.
    failure: Option<Failure>,
}

/// The reading thread, as its consumer sees it.
struct Reading {
    shared: Arc<Shared>,
    stop: StopSignal,
    thread: thread::JoinHandle<()>,
    /// The process in which the thread runs.
    process: u32,
}

/// A failure: the error itself until it was returned once, then its text.
enum Failure {
    New(Error),
    Told(String),
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    fields: Option<Arc<Vec<TypedField>>>,
    blocks: VecDeque<SampleBlock>,
    bytes: usize,
    /// The number of samples that the consumer is waiting for.
    awaited: usize,
    outcome: Option<Result<()>>,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl ReadAhead {
    /// Reads `part` of `dataset` from position `from` on, about `bytes_ahead` bytes ahead.
    pub fn new(dataset: Arc<dyn IterableDataset>, part: StreamPart, from: StreamPosition, bytes_ahead: usize) -> Self {
        Self {
            dataset,
            part,
            from,
            bytes_ahead,
            thread: None,
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

    /// Returns the fields of the samples, known once the first sample, or the end, has arrived.
    #[must_use]
    pub fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    /// Returns the schema of the samples, known when their fields are.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Waits up to `limit` until `samples` samples, or fewer and the end, have arrived. Returns how many are available,
    /// or None if the time ran out.
    ///
    /// # Errors
    /// The stream's error, after all samples before it were taken; [`Error::State`] in a forked child, and if the
    /// stream has failed before.
    pub fn wait(&mut self, samples: usize, limit: Duration) -> Result<Option<usize>> {
        if self.samples < samples && !self.has_ended {
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
                    (Error::State { reason: format!("the stream has failed before: {reason}") }, reason)
                }
            };
            self.failure = Some(Failure::Told(reason));
            return Err(error);
        }
        Ok((self.samples >= samples || self.has_ended).then_some(self.samples))
    }

    fn collect(&mut self, samples: usize, limit: Duration) -> Result<()> {
        if self.thread.is_none() {
            self.thread = Some(self.start()?);
        }
        let Some(reading) = &self.thread else { return Ok(()) };
        if reading.process != process::id() {
            let reason = "this iterator was made by the process that this one was forked from: make another".into();
            return Err(Error::State { reason });
        }
        // A deadline that the clock cannot represent means no limit.
        let deadline = Instant::now().checked_add(limit);
        let mut state = reading.shared.lock();
        loop {
            for block in state.blocks.drain(..) {
                self.samples += block.len();
                self.left_out.extend_from_slice(block.left_out());
                self.blocks.push_back(block);
            }
            state.bytes = 0;
            state.awaited = samples.saturating_sub(self.samples);
            reading.shared.changed.notify_all();
            if self.fields.is_empty()
                && let Some(fields) = &state.fields
            {
                self.fields = Arc::clone(fields);
                self.schema = Schema::new(fields.iter().map(|typed| typed.field().clone()).collect::<Vec<_>>());
            }
            if self.samples >= samples {
                return Ok(());
            }
            match state.outcome.take() {
                Some(Ok(())) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Some(Err(error)) => {
                    self.has_ended = true;
                    // Samples that arrived before the failure are returned first.
                    self.failure = Some(Failure::New(error));
                    return Ok(());
                }
                None => {}
            }
            let left = deadline.map_or(limit, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            state = reading.shared.wait(state, left);
        }
    }

    fn start(&self) -> Result<Reading> {
        let (shared, stop) = (Arc::new(Shared::default()), StopSignal::new()?);
        let (dataset, part, from, ahead) = (Arc::clone(&self.dataset), self.part.clone(), self.from, self.bytes_ahead);
        let (theirs, signal) = (Arc::clone(&shared), stop.clone());
        let read = move || {
            let outcome = catch(|| {
                let mut stream = dataset.stream(part, from, &signal)?;
                read_all(&mut *stream, &theirs, &signal, ahead)
            });
            let mut state = theirs.lock();
            state.outcome = Some(outcome);
            state.is_over = true;
            theirs.changed.notify_all();
        };
        let thread = thread::Builder::new().name("sluicegate-read".into()).spawn(read);
        let thread = thread.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        Ok(Reading { shared, stop, thread, process: process::id() })
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
            .flat_map(|(number, block)| {
                (if number == 0 { self.taken } else { 0 }..block.len()).map(move |row| (number, row))
            })
            .take(samples)
            .collect();
        let value = |place: usize, field| {
            let (block, row) = rows[place];
            self.blocks[block].value(field, row)
        };
        let batch = Batch::gather(&self.schema, rows.len(), collate, slab, value)?;
        let positions = rows.iter().map(|&(block, row)| self.blocks[block].position(row)).collect();
        Ok((batch, positions))
    }

    /// True if a sample is available that was not taken.
    pub(super) fn has_sample(&self) -> bool {
        self.samples > 0
    }

    /// Returns the next sample, if there is one: its block, and its row in the block.
    pub(crate) fn next(&self) -> Option<(&SampleBlock, usize)> {
        self.blocks.iter().find(|block| !block.is_empty()).map(|block| (block, self.taken))
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

/// Reads a stream to its end, or until the consumer stops.
fn read_all(stream: &mut dyn SampleStream, shared: &Shared, stop: &StopSignal, ahead: usize) -> Result<()> {
    let fields = Arc::new(stream.fields().to_vec());
    let room = fields.len();
    shared.lock().fields = Some(fields);
    let mut block = SampleBlock::new(room);
    loop {
        let advance = match stream.advance(&mut block) {
            Ok(advance) => advance,
            Err(error) => {
                pass_on(&mut block, room, shared, stop, usize::MAX);
                return Err(error);
            }
        };
        let is_full = block.bytes() >= BLOCK_BYTES || block.len() >= BLOCK_SAMPLES;
        let has_ended = advance == Advance::End;
        let awaited = shared.lock().awaited;
        if has_ended || is_full || (awaited > 0 && block.len() >= awaited) || stream.would_wait() {
            pass_on(&mut block, room, shared, stop, ahead);
        }
        if has_ended || stop.is_set() {
            return Ok(());
        }
    }
}

/// Appends a block to those that were not taken yet, once there is room for it.
fn pass_on(block: &mut SampleBlock, fields: usize, shared: &Shared, stop: &StopSignal, ahead: usize) {
    if block.is_empty() && block.left_out().is_empty() {
        return;
    }
    let block = std::mem::replace(block, SampleBlock::new(fields));
    let mut state = shared.lock();
    while state.bytes > 0 && state.bytes.saturating_add(block.bytes()) > ahead && !stop.is_set() {
        state = shared.wait(state, PATIENCE);
    }
    // Samples without bytes count too.
    state.bytes += block.bytes() + block.len();
    state.blocks.push_back(block);
    shared.changed.notify_all();
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let Some(reading) = self.thread.take() else { return };
        if reading.process != process::id() {
            // A forked child has neither the thread nor its unfinished work, which may include this lock.
            std::mem::forget(reading);
            return;
        }
        reading.stop.set();
        let deadline = Instant::now() + PATIENCE;
        let mut state = reading.shared.lock();
        reading.shared.changed.notify_all();
        while !state.is_over && Instant::now() < deadline {
            state = reading.shared.wait(state, deadline.saturating_duration_since(Instant::now()));
        }
        let is_over = state.is_over;
        drop(state);
        if is_over {
            let _ = reading.thread.join();
        }
    }
}
