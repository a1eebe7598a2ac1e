//! [`WorkerEnd`]: a worker process's side of the memory that it shares with the consumer.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::field_table::{PlacedField, encode};
use super::message::{BatchNumber, Outcome, Reply, Request, TaskKind};
use super::worker_layout::WorkerLayout;
use crate::memory::{Bell, EventBell, Ring, Segment, SharedWord, Woken, WorkerSlot};
use crate::{DType, Error, Result};

/// From this size in bytes on, the pages of a tensor are populated all at once.
const LARGE: usize = 256 << 10;
/// Maximum number of offsets to remember, because batches of changing sizes start anywhere.
const MOST_TOUCHED: usize = 4096;

/// A task for a worker.
#[derive(Debug)]
pub struct Task {
    /// What to do.
    pub kind: TaskKind,
    /// The batch, or the epoch.
    pub number: BatchNumber,
    /// The data that belongs to it: pickled indices, for example.
    pub payload: Vec<u8>,
}

/// A worker process's access to its requests and to the memory for its batches. Used by one thread.
pub struct WorkerEnd {
    segment: Arc<Segment>,
    requests: Ring,
    answers: Ring,
    bell: Bell,
    consumer: EventBell,
    stop: SharedWord,
    since: SharedWord,
    /// Room for batches that are larger than expected; it shrinks as it is used.
    spare: Range<usize>,
    /// The end of each large tensor that this process has already written, by its start: those pages exist.
    touched: HashMap<usize, usize>,
    /// The batch that is being built.
    unfinished: Option<UnfinishedBatch>,
}

struct UnfinishedBatch {
    number: BatchNumber,
    slot: WorkerSlot,
    fields: Vec<PlacedField>,
}

impl WorkerEnd {
    /// Opens the end of `worker`, using the values of [`Workers::layout`](super::Workers::layout) and
    /// [`Workers::descriptors`](super::Workers::descriptors).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the memory cannot be mapped.
    pub fn open(layout: (usize, usize, usize), memory: impl AsFd, bell: OwnedFd, worker: usize) -> Result<Self> {
        let layout = WorkerLayout { workers: layout.0, capacity: layout.1, lane: layout.2 };
        let segment = Arc::new(Segment::map_shared(memory, layout.bytes())?);
        Ok(Self::over(&layout, segment, bell, worker))
    }

    /// Returns the end of `worker` in memory that is already mapped.
    pub(super) fn over(layout: &WorkerLayout, segment: Arc<Segment>, bell: OwnedFd, worker: usize) -> Self {
        let since = SharedWord::new(&segment, layout.since(worker));
        // Work before the first request, such as unpickling a dataset, counts too.
        since.store(monotonic_now());
        Self {
            requests: Ring::new(Arc::clone(&segment), layout.requests(worker), layout.capacity),
            answers: Ring::new(Arc::clone(&segment), layout.answers(worker), layout.capacity),
            bell: Bell::new(Arc::clone(&segment), layout.bell(worker)),
            consumer: EventBell::attach(Arc::clone(&segment), layout.consumer_bell(), bell),
            stop: SharedWord::new(&segment, layout.stop()),
            since,
            spare: 0..0,
            touched: HashMap::new(),
            unfinished: None,
            segment,
        }
    }

    /// Waits up to `timeout` for the next task; returns None on timeout or when a signal arrives.
    ///
    /// # Errors
    /// [`Error::Worker`] if the request is invalid.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Task>> {
        self.since.store(0);
        if self.stop.load() != 0 {
            let number = BatchNumber { epoch: 0, batch_in_epoch: 0 };
            return Ok(Some(Task { kind: TaskKind::Stop, number, payload: Vec::new() }));
        }
        let Some(words) = self.requests.pop() else {
            let (requests, stop) = (&self.requests, &self.stop);
            return match self.bell.wait(|| !requests.is_empty() || stop.load() != 0, Some(timeout)) {
                Woken::Work => self.next(timeout),
                Woken::TimedOut | Woken::Interrupted => Ok(None),
            };
        };
        let invalid = || Error::Worker { reason: "the consumer sent an invalid request".into() };
        let request = Request::from_words(words).ok_or_else(invalid)?;
        if !request.spare.is_empty() {
            self.spare = request.spare;
        }
        if request.kind == TaskKind::Fetch {
            self.since.store(monotonic_now());
            let slot = WorkerSlot::new(&self.segment, request.room, std::mem::replace(&mut self.spare, 0..0));
            self.unfinished = Some(UnfinishedBatch { number: request.number, slot, fields: Vec::new() });
        }
        let payload = self.segment.copy_out(request.payload);
        Ok(Some(Task { kind: request.kind, number: request.number, payload }))
    }

    /// Returns the batch that is being built.
    fn unfinished(&mut self) -> Result<&mut UnfinishedBatch> {
        self.unfinished.as_mut().ok_or_else(|| Error::Worker { reason: "no batch is being made".into() })
    }

    /// Returns the number of tensors in the batch that is being built.
    #[must_use]
    pub fn placed(&self) -> usize {
        self.unfinished.as_ref().map_or(0, |unfinished| unfinished.fields.len())
    }

    /// Reserves room for a tensor in the batch that is being built, and returns the tensor's number.
    ///
    /// # Errors
    /// [`Error::SlotTooSmall`] if the batch becomes larger than the address space allows.
    pub fn place(&mut self, dtype: DType, shape: Vec<usize>) -> Result<usize> {
        let unfinished = self.unfinished()?;
        let mut field = PlacedField { dtype, offset: 0, shape };
        let bytes = field.bytes().ok_or(Error::SlotTooSmall { bytes: usize::MAX, room: 0 })?;
        field.offset = unfinished.slot.place(bytes)?;
        let range = unfinished.slot.range(field.offset, bytes);
        unfinished.fields.push(field);
        let number = unfinished.fields.len() - 1;
        if bytes >= LARGE && self.touched.get(&range.start).is_none_or(|&end| end < range.end) {
            // Faulting in one page at a time costs several times as much. If this fails, writing requests the pages
            // again.
            let _ = self.segment.populate(range.clone());
            if self.touched.len() > MOST_TOUCHED {
                self.touched.clear();
            }
            self.touched.insert(range.start, range.end);
        }
        Ok(number)
    }

    /// Returns the bytes of tensor `field` of the batch that is being built, for writing.
    ///
    /// # Errors
    /// [`Error::Worker`] if there is no such tensor.
    pub fn bytes_mut(&mut self, field: usize) -> Result<&mut [u8]> {
        let unfinished = self.unfinished()?;
        let placed = unfinished.fields.get(field).ok_or_else(|| missing(field))?;
        Ok(unfinished.slot.bytes_mut(placed.offset, placed.bytes().unwrap_or(0)))
    }

    /// Returns the data type and shape of tensor `field` of the batch that is being built.
    ///
    /// # Errors
    /// [`Error::Worker`] if there is no such tensor.
    pub fn field(&mut self, field: usize) -> Result<(DType, &[usize])> {
        let placed = self.unfinished()?.fields.get(field).ok_or_else(|| missing(field))?;
        Ok((placed.dtype, &placed.shape))
    }

    /// Returns the address of tensor `field` of the batch that is being built, which is valid until the next tensor is
    /// placed, and the segment that contains it.
    ///
    /// # Errors
    /// [`Error::Worker`] if there is no such tensor.
    pub fn address(&mut self, field: usize) -> Result<(NonNull<u8>, Arc<Segment>)> {
        let address = NonNull::from(self.bytes_mut(field)?).cast();
        Ok((address, Arc::clone(&self.segment)))
    }

    /// Sends the answer: the batch that is being built is complete, and `envelope` describes the structure around its
    /// tensors. With an outcome other than a batch, everything written so far is dropped.
    ///
    /// # Errors
    /// [`Error::SlotTooSmall`] if the envelope is too large; the batch stays open then, so that another answer can be
    /// sent.
    pub fn answer(&mut self, outcome: Outcome, envelope: &[u8]) -> Result<()> {
        let unfinished = self.unfinished()?;
        if outcome != Outcome::Batch {
            unfinished.fields.clear();
            unfinished.slot.clear();
        }
        let table_bytes = encode(&unfinished.fields);
        let table = unfinished.slot.place(table_bytes.len() + envelope.len())?;
        let bytes = unfinished.slot.bytes_mut(table, table_bytes.len() + envelope.len());
        let (front, back) = bytes.split_at_mut(table_bytes.len());
        front.copy_from_slice(&table_bytes);
        back.copy_from_slice(envelope);
        let Some(UnfinishedBatch { number, slot, .. }) = self.unfinished.take() else { return Ok(()) };
        let (used, spare) = slot.finish();
        self.spare = spare;
        let reply = Reply { outcome, number, at: monotonic_now(), used, table, envelope: table + table_bytes.len() };
        if !self.answers.push(reply.to_words()) {
            return Err(Error::Worker { reason: "there are more answers than requests".into() });
        }
        self.consumer.ring()
    }
}

fn missing(field: usize) -> Error {
    Error::Worker { reason: format!("the batch has no tensor {field}") }
}

/// Returns nanoseconds of the clock that all processes of the machine share.
fn monotonic_now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}
