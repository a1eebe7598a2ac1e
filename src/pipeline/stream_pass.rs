//! [`StreamPass`]: one pass over a stream, which a separate thread reads for one reader or for several.

use std::collections::VecDeque;
use std::mem;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::stream_readers::{Outcome, Readers};
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::error::catch;
use crate::{Error, Result, SampleBlock, TypedField};

/// Samples are handed over in blocks of this many bytes, or sooner if a reader is waiting.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCK_SAMPLES: usize = 1024;

/// A reading thread that is asked to stop does so within this time, unless a file system hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// One pass over a stream for all workers of a rank: its bytes are read and parsed once, and each worker takes its part.
///
/// The thread that reads starts when all workers are there and one of them waits for samples. It reads a bounded number
/// of bytes ahead of them. If a worker falls so far behind that others would have to wait for it, it continues by
/// itself, with a pass of its own. Clones are one pass.
///
/// # Example
/// ```
/// use std::{sync::Arc, thread, time::Duration};
/// use sluicegate::internal::{ReadAhead, StreamPass};
/// use sluicegate::{IterableDataset, StreamDataset, StreamFormat, StreamPart, StreamPosition, StreamSource, StreamSplit};
/// let lines = StreamDataset::new(vec![StreamSource::Command("seq 5".into())], StreamFormat::json_lines(None));
/// let (lines, pass) = (Arc::new(lines) as Arc<dyn IterableDataset>, StreamPass::new(2)?);
/// let split = StreamSplit { num_workers: 2, ..StreamSplit::WHOLE };
/// let mut workers = [0, 1].map(|worker| {
///     let part = StreamPart { split, worker, consumed: Vec::new() };
///     ReadAhead::shared(Arc::clone(&lines), part, StreamPosition::default(), 1 << 20, &pass)
/// });
/// let found: Vec<_> = workers.iter_mut().map(|ahead| ahead.wait(9, Duration::from_secs(10))).collect();
/// assert!(matches!(found[..], [Ok(Some(3)), Ok(Some(2))]));
/// # Ok::<(), sluicegate::Error>(())
/// ```
#[derive(Clone)]
pub struct StreamPass(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: StopSignal,
    /// The process in which the thread runs.
    process: u32,
}

#[derive(Default)]
struct State {
    /// By worker: true if it has joined, or will not.
    has_arrived: Vec<bool>,
    readers: Readers,
    fields: Option<Arc<Vec<TypedField>>>,
    has_begun: bool,
    is_over: bool,
    thread: Option<thread::JoinHandle<()>>,
}

/// The place of one reader in a pass; the others can be read on without it.
pub(super) struct StreamShare {
    shared: Arc<Shared>,
    number: usize,
}

/// What has come for a reader.
#[derive(Default)]
pub(super) struct Arrival {
    pub(super) fields: Option<Arc<Vec<TypedField>>>,
    /// Each with true if this reader reports what was left out.
    pub(super) blocks: VecDeque<(Arc<SampleBlock>, bool)>,
    /// Nothing else comes after them.
    pub(super) outcome: Option<Outcome>,
}

impl StreamPass {
    /// A pass for this many workers.
    ///
    /// # Errors
    /// [`Error::Threads`] if the process has no descriptor left.
    pub fn new(workers: usize) -> Result<Self> {
        Ok(Self::with(workers, StopSignal::new()?))
    }

    /// A pass for one reader, which [`close`](Self::close) of this one closes, too.
    pub(super) fn child(&self) -> Result<Self> {
        Ok(Self::with(0, self.0.stop.child()?))
    }

    fn with(workers: usize, stop: StopSignal) -> Self {
        let state = Mutex::new(State { has_arrived: vec![false; workers], ..State::default() });
        Self(Arc::new(Shared { state, changed: Condvar::new(), stop, process: process::id() }))
    }

    /// Says that `worker` has joined, or will not.
    pub fn arrive(&self, worker: usize) {
        if let Some(has_arrived) = self.0.lock().has_arrived.get_mut(worker) {
            *has_arrived = true;
        }
        self.0.changed.notify_all();
    }

    /// Ends reading: readers that wait for samples get an error, soon.
    pub fn close(&self) {
        self.0.stop.set();
        self.0.changed.notify_all();
    }

    /// Joins before the pass begins; `None` if it has begun, or is not that of this split.
    pub(super) fn join(&self, part: &StreamPart, from: StreamPosition, bytes_ahead: usize) -> Option<StreamShare> {
        let mut state = self.0.lock();
        if self.0.process != process::id() || state.has_begun {
            return None;
        }
        let number = state.readers.join(part, from, bytes_ahead)?;
        let shared = Arc::clone(&self.0);
        drop(state);
        self.arrive(usize::try_from(part.worker).unwrap_or(usize::MAX));
        Some(StreamShare { shared, number })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Starts the thread if all workers are there.
    fn begin(self: &Arc<Self>, state: &mut State, dataset: &Arc<dyn IterableDataset>) -> Result<()> {
        if state.has_begun || state.has_arrived.contains(&false) {
            return Ok(());
        }
        let (dataset, shared, (part, from)) = (Arc::clone(dataset), Arc::clone(self), state.readers.whole());
        let read = move || shared.read(&*dataset, part, from);
        let thread = thread::Builder::new().name("sluicegate-read".into()).spawn(read);
        state.thread = Some(thread.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?);
        state.has_begun = true;
        Ok(())
    }

    fn read(&self, dataset: &dyn IterableDataset, part: StreamPart, from: StreamPosition) {
        let mut at = from;
        let outcome = catch(|| {
            let mut stream = dataset.stream(part, from, &self.stop)?;
            self.read_all(&mut *stream, &mut at)
        });
        let mut state = self.lock();
        state.readers.end(outcome, at);
        state.is_over = true;
        self.changed.notify_all();
    }

    /// Reads a stream to its end, or until all readers are gone. `at` is where it is after the last block.
    fn read_all(&self, stream: &mut dyn SampleStream, at: &mut StreamPosition) -> Result<()> {
        let fields = stream.fields().to_vec();
        let mut block = SampleBlock::new(fields.len());
        self.lock().fields = Some(Arc::new(fields));
        loop {
            let advance = match stream.advance(&mut block) {
                Ok(advance) => advance,
                Err(error) => {
                    self.pass_on(block.take(), at, false);
                    let Some(ordinal) = stream.pass_failed() else { return Err(error) };
                    let mut state = self.lock();
                    state.readers.fail(ordinal, error);
                    self.changed.notify_all();
                    if state.readers.is_empty() {
                        return Ok(());
                    }
                    continue;
                }
            };
            let is_full = block.bytes() >= BLOCK_BYTES || block.len() >= BLOCK_SAMPLES;
            let has_ended = advance == Advance::End;
            if has_ended || is_full || self.lock().readers.await_a_block(block.len()) || stream.would_wait() {
                self.pass_on(block.take(), at, true);
            }
            if has_ended || self.stop.is_set() {
                return Ok(());
            }
        }
    }

    /// Appends a block to those that were not taken yet; with `waits`, once there is room for it.
    fn pass_on(&self, block: SampleBlock, at: &mut StreamPosition, waits: bool) {
        if block.is_empty() && block.left_out().is_empty() {
            return;
        }
        let mut state = self.lock();
        while waits && state.readers.are_full(&block) && !self.stop.is_set() {
            state = self.wait(state, PATIENCE);
        }
        let last = block.len().checked_sub(1).map(|last| block.position(last));
        state.readers.push(block, *at);
        *at = last.unwrap_or(*at);
        self.changed.notify_all();
    }
}

impl StreamShare {
    /// Waits until `deadline` for blocks or the outcome: for as long as `limit` says without one.
    ///
    /// # Errors
    /// [`Error::State`] in a forked child, and if the pass was closed; [`Error::Threads`] if no thread could be started.
    pub(super) fn receive(
        &self,
        dataset: &Arc<dyn IterableDataset>,
        samples: usize,
        in_hand: usize,
        deadline: Option<Instant>,
        limit: Duration,
    ) -> Result<Arrival> {
        if self.shared.process != process::id() {
            let reason = "this iterator was made by the process that this one was forked from: make another".into();
            return Err(Error::State { reason });
        }
        let mut state = self.shared.lock();
        state.readers.wait(self.number, samples, in_hand);
        self.shared.changed.notify_all();
        loop {
            if self.shared.stop.is_set() {
                return Err(Error::State { reason: "its workers have been ended".into() });
            }
            self.shared.begin(&mut state, dataset)?;
            let blocks = state.readers.take(self.number);
            let outcome = if blocks.is_empty() { state.readers.outcome(self.number) } else { None };
            let left = deadline.map_or(limit, |deadline| deadline.saturating_duration_since(Instant::now()));
            if !blocks.is_empty() || outcome.is_some() || left.is_zero() {
                self.shared.changed.notify_all();
                return Ok(Arrival { fields: state.fields.clone(), blocks, outcome });
            }
            state = self.shared.wait(state, left);
        }
    }

    /// Says that no more samples are waited for.
    pub(super) fn rest(&self) {
        self.shared.lock().readers.wait(self.number, 0, 0);
    }
}

impl Drop for StreamShare {
    fn drop(&mut self) {
        if self.shared.process != process::id() {
            // A forked child has neither the thread nor its unfinished work, which may include this lock.
            mem::forget(Arc::clone(&self.shared));
            return;
        }
        let mut state = self.shared.lock();
        state.readers.leave(self.number);
        self.shared.changed.notify_all();
        if !state.has_begun || !state.readers.are_gone() {
            return;
        }
        self.shared.stop.set();
        let deadline = Instant::now() + PATIENCE;
        while !state.is_over && Instant::now() < deadline {
            state = self.shared.wait(state, deadline.saturating_duration_since(Instant::now()));
        }
        let thread = state.thread.take().filter(|_| state.is_over);
        drop(state);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
