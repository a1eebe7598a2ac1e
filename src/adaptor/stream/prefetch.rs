//! [`StreamPrefetch`]: a stream that is read ahead.

use std::collections::VecDeque;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::adaptor::window::check_counts;
use crate::dataset::{Advance, IterableDataset, SampleStream, StopSignal, StreamPart, StreamPosition};
use crate::error::catch;
use crate::{Error, Result, SampleBlock, TypedField};

/// How long to wait for the thread to stop, which takes longer only if a file system or a closure hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// The samples of a stream, read ahead on a separate thread: the result of
/// [`IterableDatasetExt::prefetch`](super::IterableDatasetExt::prefetch).
pub(super) struct StreamPrefetch<D> {
    dataset: D,
    samples: usize,
}

impl<D> StreamPrefetch<D> {
    pub(super) fn new(dataset: D, samples: usize) -> Result<Self> {
        check_counts(&[("samples", samples)])?;
        Ok(Self { dataset, samples })
    }
}

impl<D: IterableDataset> IterableDataset for StreamPrefetch<D> {
    fn stream(&self, part: StreamPart, from: StreamPosition, stop: &StopSignal) -> Result<Box<dyn SampleStream>> {
        // Dropping the pass stops only its own thread.
        let stop = stop.child()?;
        let stream = self.dataset.stream(part, from, &stop)?;
        let fields = stream.fields().to_vec();
        let queue = Arc::new(Queue { state: Mutex::default(), changed: Condvar::new(), room: self.samples });
        let (theirs, signal) = (Arc::clone(&queue), stop.clone());
        let read = move || {
            let outcome = catch(|| theirs.fill(stream, &signal));
            let mut state = theirs.lock();
            (state.error, state.is_over) = (outcome.err(), true);
            theirs.changed.notify_all();
        };
        let thread = Builder::new().name("sluice-prefetch".into()).spawn(read);
        let thread = thread.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        let reading = Some(Reading { queue, stop, thread, process: process::id() });
        Ok(Box::new(Prefetched { fields, reading, used: None }))
    }

    fn is_repeatable(&self) -> bool {
        self.dataset.is_repeatable()
    }
}

/// Samples that were read and not taken yet.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Maximum number of samples in the queue.
    room: usize,
}

#[derive(Default)]
struct State {
    /// Blocks of one sample, or of the items skipped at the end.
    ready: VecDeque<SampleBlock>,
    /// Blocks to reuse.
    free: Vec<SampleBlock>,
    /// The error that occurred after the ready blocks.
    error: Option<Error>,
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads `stream` to its end, or until the consumer stops, and closes it.
    fn fill(&self, mut stream: Box<dyn SampleStream>, stop: &StopSignal) -> Result<()> {
        while let Some(mut block) = self.free_block(stream.fields().len(), stop) {
            let advance = stream.advance(&mut block);
            if !block.is_empty() || !block.left_out().is_empty() {
                self.lock().ready.push_back(block);
                self.changed.notify_all();
            }
            if advance? == Advance::End {
                break;
            }
        }
        Ok(())
    }

    /// Returns a block for the next sample once there is room for it, or None if the consumer stopped.
    fn free_block(&self, fields: usize, stop: &StopSignal) -> Option<SampleBlock> {
        let mut state = self.lock();
        while state.ready.len() >= self.room && !stop.is_set() {
            state = self.wait(state);
        }
        let free = state.free.pop();
        (!stop.is_set()).then(|| free.unwrap_or_else(|| SampleBlock::new(fields)))
    }

    /// Returns the next block once there is one, or None at the end. Reuses `used`.
    fn take(&self, used: Option<SampleBlock>) -> Result<Option<SampleBlock>> {
        let mut state = self.lock();
        state.free.extend(used);
        while state.ready.is_empty() && !state.is_over {
            state = self.wait(state);
        }
        self.changed.notify_all();
        match (state.ready.pop_front(), state.error.take()) {
            (None, Some(error)) => Err(error),
            (block, error) => {
                state.error = error;
                Ok(block)
            }
        }
    }
}

struct Prefetched {
    fields: Vec<TypedField>,
    /// None once this is dropped.
    reading: Option<Reading>,
    /// The block of the last sample taken.
    used: Option<SampleBlock>,
}

/// The reading thread, as its consumer sees it.
struct Reading {
    queue: Arc<Queue>,
    stop: StopSignal,
    thread: JoinHandle<()>,
    /// The process in which the thread runs.
    process: u32,
}

impl SampleStream for Prefetched {
    fn fields(&self) -> &[TypedField] {
        &self.fields
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        let Some(reading) = self.reading.as_ref().filter(|reading| reading.process == process::id()) else {
            let reason =
                "this stream was opened before the process was forked; open another one in the child process".into();
            return Err(Error::State { reason });
        };
        while let Some(mut block) = reading.queue.take(self.used.take())? {
            block.left_out().iter().for_each(|line| into.leave_out(line.clone()));
            let has_sample = !block.is_empty();
            if has_sample {
                let values: Vec<&[u8]> = (0..self.fields.len()).map(|field| block.value(field, 0)).collect();
                into.push(&self.fields, &values, block.position(0))?;
            }
            block.clear();
            self.used = Some(block);
            if has_sample {
                return Ok(Advance::Sample);
            }
        }
        Ok(Advance::End)
    }

    fn would_wait(&self) -> bool {
        let own = self.reading.as_ref().filter(|reading| reading.process == process::id());
        own.is_some_and(|reading| {
            let state = reading.queue.lock();
            state.ready.is_empty() && !state.is_over
        })
    }
}

impl Drop for Prefetched {
    fn drop(&mut self) {
        let Some(reading) = self.reading.take() else { return };
        if reading.process != process::id() {
            // Leaked: a forked child does not have the thread, which may have held this lock.
            std::mem::forget(reading);
            return;
        }
        reading.stop.set();
        let deadline = Instant::now() + PATIENCE;
        let mut state = reading.queue.lock();
        reading.queue.changed.notify_all();
        while !state.is_over && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            state = reading.queue.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_over = state.is_over;
        drop(state);
        if is_over {
            let _ = reading.thread.join();
        }
    }
}
