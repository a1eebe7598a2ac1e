//! [`StreamPass`]: one pass over a stream by a separate thread, for one or several readers.

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

/// How long to wait for a reading thread to stop, which takes longer only if a file system hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// One pass over a stream for all workers of a rank: its bytes are read and parsed once; each worker takes its part.
///
/// The reading thread starts when all workers have [arrived](Self::arrive) and one of them waits for samples. It reads
/// ahead by a bounded number of bytes. A worker that falls so far behind that the others would have to wait for it
/// continues by itself, with a separate pass. Clones share one pass.
///
/// # Example
/// ```
/// use std::{sync::Arc, thread, time::Duration};
/// use sluicegate::internal::{ReadAhead, StreamPass, StreamSplit};
/// use sluicegate::{IterableDataset, StreamDataset, StreamFormat, StreamPart, StreamPosition, StreamSource};
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
    /// For each worker: true if it has joined or will not join.
    has_arrived: Vec<bool>,
    readers: Readers,
    fields: Option<Arc<Vec<TypedField>>>,
    has_begun: bool,
    is_over: bool,
    thread: Option<thread::JoinHandle<()>>,
}

/// One reader's membership in a pass; the other readers can continue without it.
pub(super) struct StreamShare {
    shared: Arc<Shared>,
    number: usize,
}

/// What a reader has received.
#[derive(Default)]
pub(super) struct Arrival {
    pub(super) fields: Option<Arc<Vec<TypedField>>>,
    /// Each with true if this reader must report the items that were skipped.
    pub(super) blocks: VecDeque<(Arc<SampleBlock>, bool)>,
    /// How the stream ends for this reader, once it has taken all blocks.
    pub(super) outcome: Option<Outcome>,
}

impl StreamPass {
    /// Returns a pass for `workers` workers.
    ///
    /// # Errors
    /// [`Error::Threads`] if the process has no file descriptor left.
    pub fn new(workers: usize) -> Result<Self> {
        Ok(Self::with(workers, StopSignal::new()?))
    }

    /// Returns a pass for one reader. Calling [`close`](Self::close) on this pass closes that one, too.
    pub(super) fn child(&self) -> Result<Self> {
        Ok(Self::with(0, self.0.stop.child()?))
    }

    fn with(workers: usize, stop: StopSignal) -> Self {
        let state = Mutex::new(State { has_arrived: vec![false; workers], ..State::default() });
        Self(Arc::new(Shared { state, changed: Condvar::new(), stop, process: process::id() }))
    }

    /// Records that `worker` has joined or will not join.
    pub fn arrive(&self, worker: usize) {
        if let Some(has_arrived) = self.0.lock().has_arrived.get_mut(worker) {
            *has_arrived = true;
        }
        self.0.changed.notify_all();
    }

    /// Stops reading: readers that wait for samples soon get an error.
    pub fn close(&self) {
        self.0.stop.set();
        self.0.changed.notify_all();
    }

    /// Joins the pass; returns `None` if it has begun, is for a different split, or belongs to another process.
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

    /// Starts the thread once all workers have arrived.
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

    /// Reads a stream until it ends, is stopped, or has no readers. `at` becomes the position after the last block.
    fn read_all(&self, stream: &mut dyn SampleStream, at: &mut StreamPosition) -> Result<()> {
        let fields = stream.fields().to_vec();
        let mut block = SampleBlock::new(fields.len());
        self.lock().fields = Some(Arc::new(fields));
        loop {
            let advance = match stream.advance(&mut block) {
                Ok(advance) => advance,
                Err(error) => {
                    self.distribute(block.take(), at, false);
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
            if has_ended || is_full || self.lock().readers.satisfies_a_reader(block.len()) || stream.would_wait() {
                self.distribute(block.take(), at, true);
            }
            if has_ended || self.stop.is_set() {
                return Ok(());
            }
        }
    }

    /// Gives the readers a block, whose end becomes `at`; if `waits` is set, first waits until there is room for it.
    fn distribute(&self, block: SampleBlock, at: &mut StreamPosition, waits: bool) {
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
    /// Waits for blocks or the outcome until `deadline`; without one, wakes up every `limit`.
    ///
    /// # Errors
    /// [`Error::State`] in a forked child, or if the pass was closed; [`Error::Threads`] if no thread could be started.
    pub(super) fn receive(
        &self,
        dataset: &Arc<dyn IterableDataset>,
        samples: usize,
        in_hand: usize,
        deadline: Option<Instant>,
        limit: Duration,
    ) -> Result<Arrival> {
        if self.shared.process != process::id() {
            let reason =
                "this iterator was made before the process was forked; make another one in the child process".into();
            return Err(Error::State { reason });
        }
        let mut state = self.shared.lock();
        state.readers.wait(self.number, samples, in_hand);
        self.shared.changed.notify_all();
        loop {
            if self.shared.stop.is_set() {
                return Err(Error::State { reason: "its workers have ended".into() });
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

    /// Records that this reader is not waiting for samples.
    pub(super) fn rest(&self) {
        self.shared.lock().readers.wait(self.number, 0, 0);
    }
}

impl Drop for StreamShare {
    fn drop(&mut self) {
        if self.shared.process != process::id() {
            // Leaked: a forked child does not have the thread, which may have held this lock.
            mem::forget(Arc::clone(&self.shared));
            return;
        }
        let mut state = self.shared.lock();
        state.readers.leave(self.number);
        self.shared.changed.notify_all();
        if !state.has_begun || !state.readers.have_all_left() {
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
