//! [`Workers`]: the consumer's side of the memory that it shares with its worker processes.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::answer_wait::AnswerWait;
use super::field_table::{PlacedField, decode};
use super::message::{BatchNumber, Outcome, Reply, Request, TaskKind};
use super::worker_end::WorkerEnd;
use super::worker_layout::WorkerLayout;
use super::{BytesAhead, Held};
use crate::memory::{Arena, Bell, EventBell, Grant, Lease, Ring, Segment, SharedWord, Slab, spare_for};
use crate::{Error, Result};

/// Before batch sizes are known, one batch may take up to one part in this many of a worker's memory.
const SPARE: usize = 4;
/// Minimum room in bytes that a worker gets for its first batches; untouched memory costs nothing.
const SMALLEST_LANE: usize = 4 << 20;
/// Maximum segment size: address space is not memory, but there are only 47 bits of it.
const LARGEST_SEGMENT: usize = 1 << 44;

/// The answer to one request.
#[derive(Debug)]
pub struct Answer {
    /// The worker that answered.
    pub worker: usize,
    /// The batch that the answer is about.
    pub number: BatchNumber,
    /// The outcome of the batch.
    pub outcome: Outcome,
    /// The memory that contains its bytes.
    pub lease: Lease,
    /// The tensors in that memory.
    pub fields: Vec<PlacedField>,
    /// The bytes that describe the structure around the tensors.
    pub envelope: Range<usize>,
    /// Counts the batch as ahead until this is dropped; None if batches are not counted, or there is no batch.
    pub held: Option<Held>,
}

/// The memory that a consumer shares with its worker processes, and the requests in flight.
///
/// Only this side tracks which process may write where. A worker writes only into the room that a request grants, so a
/// worker that is killed at any moment leaves nothing to repair.
pub struct Workers {
    layout: WorkerLayout,
    segment: Arc<Segment>,
    file: OwnedFd,
    bell: Arc<EventBell>,
    stop: SharedWord,
    lanes: Vec<Lane>,
    /// Answers that were popped from the rings but not taken by the consumer, oldest first.
    received: VecDeque<(u64, Answer)>,
    /// Memory for batches when users keep so many that the shared memory runs out.
    private: Arc<Slab>,
    bytes_ahead: Option<Arc<BytesAhead>>,
}

/// The consumer's record of one worker.
struct Lane {
    requests: Ring,
    answers: Ring,
    bell: Bell,
    since: SharedWord,
    request_room: Arc<Arena>,
    batch_room: Arc<Arena>,
    batch_bytes: usize,
    /// Requests without an answer: a worker answers in request order.
    under_way: VecDeque<UnderWay>,
    spares: VecDeque<Spare>,
}

struct UnderWay {
    number: BatchNumber,
    room: Option<Grant>,
    /// Read by the worker until it answers.
    _payload: Option<Lease>,
}

/// Room for batches that are larger than expected.
struct Spare {
    room: Grant,
    /// The first batch that may use it; the worker does not know of it until that batch is requested.
    since: Option<BatchNumber>,
}

impl Workers {
    /// Returns memory for `workers` workers, each with up to `under_way` unanswered requests, which keeps `free_slots`
    /// free slots per worker.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] if the operating system refuses.
    pub fn new(workers: usize, under_way: usize, free_slots: usize) -> Result<Self> {
        let capacity = (under_way + 4).next_power_of_two();
        let (layout, segment, file) = Self::map(workers, capacity)?;
        let segment = Arc::new(segment);
        let lanes = (0..workers).map(|worker| Lane::new(&layout, &segment, worker, free_slots)).collect();
        Ok(Self {
            layout,
            bell: Arc::new(EventBell::new(Arc::clone(&segment), layout.consumer_bell())?),
            stop: SharedWord::new(&segment, layout.stop()),
            lanes,
            segment,
            file,
            received: VecDeque::new(),
            private: Arc::new(Slab::new(free_slots)),
            bytes_ahead: None,
        })
    }

    /// Counts answers in `bytes_ahead` from now on. The free memory of all workers also stays below its bound.
    pub fn count_in(&mut self, bytes_ahead: Arc<BytesAhead>) {
        let free_bytes = bytes_ahead.bound() / self.lanes.len().max(1);
        self.lanes.iter().for_each(|lane| lane.batch_room.limit_free_bytes(free_bytes));
        self.bytes_ahead = Some(bytes_ahead);
    }

    /// Maps as much address space as the machine could use, or as much as a limit allows.
    fn map(workers: usize, capacity: usize) -> Result<(WorkerLayout, Segment, OwnedFd)> {
        let least = SMALLEST_LANE;
        let wanted = crate::memory::physical_bytes().saturating_mul(2).next_power_of_two();
        let limit = crate::memory::address_space_left().map_or(LARGEST_SEGMENT, |left| (left / 4).min(LARGEST_SEGMENT));
        let mut lane = wanted.min(limit / workers).max(least);
        loop {
            lane = lane / (2 << 20) * (2 << 20);
            let layout = WorkerLayout { workers, capacity, lane: lane.max(least) };
            match Segment::shared(layout.bytes()) {
                Ok((segment, file)) => return Ok((layout, segment, file)),
                Err(error) if lane <= least => return Err(error),
                Err(_) => lane = (lane / 2).max(least),
            }
        }
    }

    /// Returns the numbers from which a worker derives the layout: the number of workers, messages per ring, bytes per
    /// worker.
    #[must_use]
    pub fn layout(&self) -> (usize, usize, usize) {
        (self.layout.workers, self.layout.capacity, self.layout.lane)
    }

    /// Returns the descriptors that a worker needs: the memory, and the consumer's doorbell.
    #[must_use]
    pub fn descriptors(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.file.as_fd(), self.bell.as_fd())
    }

    /// Returns the end of `worker`, in a process that was forked from this one and has inherited the memory.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] if no file can be opened.
    pub fn end(&self, worker: usize) -> Result<WorkerEnd> {
        let bell = self.bell.as_fd().try_clone_to_owned().map_err(|source| Error::SharedMemory {
            operation: "an open file",
            bytes: EventBell::BYTES,
            limit: "ulimit -n",
            source,
        })?;
        Ok(WorkerEnd::over(&self.layout, Arc::clone(&self.segment), bell, worker))
    }

    /// Prepares the memory for new worker processes, after the previous ones have ended.
    pub fn renew(&mut self) {
        self.forget();
        self.stop.store(0);
        for lane in &mut self.lanes {
            lane.requests.reset();
            lane.answers.reset();
            lane.since.store(0);
        }
    }

    /// Discards requests in flight and answers that were not received, after the worker processes have ended.
    pub fn forget(&mut self) {
        self.received.clear();
        for lane in &mut self.lanes {
            lane.under_way.clear();
            lane.spares.clear();
        }
    }

    /// Sends a task with `payload` to `worker`. Returns immediately.
    ///
    /// # Errors
    /// [`Error::Worker`] if more requests are in flight than was agreed; [`Error::OutOfMemory`] if there is no room for
    /// the request.
    pub fn send(&mut self, worker: usize, kind: TaskKind, number: BatchNumber, payload: &[u8]) -> Result<()> {
        let lane = &mut self.lanes[worker];
        let mut request = Request { kind, number, payload: 0..0, room: 0..0, spare: 0..0 };
        let mut under_way = UnderWay { number, room: None, _payload: None };
        if !payload.is_empty() {
            let room = lane.request_room.grant(payload.len()).ok_or_else(|| no_room(payload.len()))?;
            request.payload = room.range().start..room.range().start + payload.len();
            let mut lease = room.into_lease(0, payload.len());
            lease.bytes_mut().copy_from_slice(payload);
            under_way._payload = Some(lease);
        }
        if kind == TaskKind::Fetch {
            let expected = lane.batch_room.expected();
            under_way.room = if expected > 0 { lane.batch_room.grant(expected) } else { None };
            if let Some(room) = &under_way.room {
                request.room = room.range();
            }
            if let Some(spare) = lane.spare_to_announce() {
                spare.since = Some(number);
                request.spare = spare.room.range();
            }
        }
        if !lane.requests.push(request.to_words()) {
            return Err(Error::Worker { reason: format!("worker {worker} got more requests than its queue can hold") });
        }
        if kind == TaskKind::Fetch {
            lane.under_way.push_back(under_way);
        } else if let Some(payload) = under_way._payload {
            // Keep the payload until the next answer: by then, the worker has read this request.
            let number = BatchNumber { batch_in_epoch: u64::MAX, ..number };
            lane.under_way.push_back(UnderWay { number, room: None, _payload: Some(payload) });
        }
        lane.bell.ring();
        Ok(())
    }

    /// Tells all workers to stop after their current task.
    pub fn stop(&mut self) {
        self.stop.store(1);
        for lane in &self.lanes {
            lane.bell.ring();
        }
    }

    /// Returns an object that waits for answers. Only one thread at a time may wait, and it does not use `self`
    /// meanwhile.
    #[must_use]
    pub fn answer_wait(&self) -> AnswerWait {
        let ring = |worker| Ring::new(Arc::clone(&self.segment), self.layout.answers(worker), self.layout.capacity);
        AnswerWait::new(Arc::clone(&self.bell), (0..self.layout.workers).map(ring).collect())
    }

    /// Returns the oldest answer that was not taken, if there is one. Never waits.
    ///
    /// # Errors
    /// [`Error::Worker`] if an answer is invalid.
    pub fn take(&mut self) -> Result<Option<Answer>> {
        // Take all available answers off the rings, so that they are counted.
        self.listen()?;
        Ok(self.received.pop_front().map(|(_, answer)| answer))
    }

    /// Takes all answers off the rings. Never waits.
    ///
    /// # Errors
    /// [`Error::Worker`] if an answer is invalid.
    pub fn listen(&mut self) -> Result<()> {
        let before = self.received.len();
        for (worker, lane) in self.lanes.iter_mut().enumerate() {
            while let Some(words) = lane.answers.pop() {
                let invalid = || Error::Worker { reason: format!("worker {worker} sent an invalid answer") };
                let reply = Reply::from_words(words).ok_or_else(invalid)?;
                let lease = lane.take(&reply, &self.private)?.ok_or_else(invalid)?;
                let fields = decode(&lease.bytes()[reply.table..reply.envelope], reply.table)?;
                let envelope = reply.envelope..lease.len();
                let (number, outcome) = (reply.number, reply.outcome);
                let counting = self.bytes_ahead.as_ref().filter(|_| outcome == Outcome::Batch);
                let held = counting.map(|ahead| ahead.hold(lease.len()));
                let answer = Answer { worker, number, outcome, lease, fields, envelope, held };
                self.received.push_back((reply.at, answer));
            }
        }
        self.received.make_contiguous()[before..].sort_by_key(|(at, _)| *at);
        Ok(())
    }

    /// Returns when `worker` started its current batch, in nanoseconds of the monotonic clock; 0 if it is waiting.
    #[must_use]
    pub fn busy_since(&self, worker: usize) -> u64 {
        self.lanes[worker].since.load()
    }

    /// Returns the range of the memory where the Python stack of `worker` is written.
    #[must_use]
    pub fn call_stack(&self, worker: usize) -> Range<usize> {
        self.layout.stack(worker)
    }

    /// Returns what `worker` wrote about its Python stack.
    #[must_use]
    pub fn stack_of(&self, worker: usize) -> Vec<u8> {
        let stack = self.segment.copy_out(self.layout.stack(worker));
        stack.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
    }

    /// Returns the memory that batches occupy in bytes, including batches that the user keeps.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.batch_room.leased_bytes() + lane.batch_room.warm_bytes()).sum()
    }
}

impl Lane {
    fn new(layout: &WorkerLayout, segment: &Arc<Segment>, worker: usize, free_slots: usize) -> Self {
        let batch_room = layout.batch_room(worker);
        Self {
            requests: Ring::new(Arc::clone(segment), layout.requests(worker), layout.capacity),
            answers: Ring::new(Arc::clone(segment), layout.answers(worker), layout.capacity),
            bell: Bell::new(Arc::clone(segment), layout.bell(worker)),
            since: SharedWord::new(segment, layout.since(worker)),
            request_room: Arena::new(Arc::clone(segment), layout.request_room(worker), free_slots),
            batch_bytes: batch_room.len(),
            batch_room: Arena::new(Arc::clone(segment), batch_room, free_slots),
            under_way: VecDeque::new(),
            spares: VecDeque::new(),
        }
    }

    /// Returns spare room that must be announced to the worker, if there is any.
    fn spare_to_announce(&mut self) -> Option<&mut Spare> {
        let enough = self.batch_bytes / SPARE / 2;
        if self.spares.back().is_none_or(|spare| spare.room.range().len() < enough)
            && let Some(room) = self.batch_room.reserve(self.batch_bytes / SPARE)
        {
            self.spares.push_back(Spare { room, since: None });
        }
        self.spares.back_mut().filter(|spare| spare.since.is_none())
    }

    /// Returns the memory that `reply` reports as used, or None if the worker was not allowed to write there. While batches
    /// that users keep take half of the worker's memory, it is a copy in private memory.
    fn take(&mut self, reply: &Reply, private: &Arc<Slab>) -> Result<Option<Lease>> {
        let Some(request) = self.answered(reply.number) else { return Ok(None) };
        let Some(lease) = self.written(request.room, &reply.used) else { return Ok(None) };
        if self.batch_room.leased_bytes() <= self.batch_bytes / 2 {
            return Ok(Some(lease));
        }
        let mut copy = private.lease(lease.len())?;
        copy.bytes_mut().copy_from_slice(lease.bytes());
        Ok(Some(copy))
    }

    /// Removes the request for `number`, which it returns, and those before it. From this batch on, only spare room that
    /// was announced with it, or before, is used.
    fn answered(&mut self, number: BatchNumber) -> Option<UnderWay> {
        while self.under_way.front().is_some_and(|request| request.number != number) {
            self.under_way.pop_front();
        }
        let request = self.under_way.pop_front()?;
        while self.spares.get(1).is_some_and(|newer| newer.since == Some(number)) {
            self.spares.pop_front();
        }
        Some(request)
    }

    /// Returns the bytes `used`, if they are in the granted `room`, or otherwise in the oldest spare room.
    fn written(&mut self, room: Option<Grant>, used: &Range<usize>) -> Option<Lease> {
        let bytes = used.len();
        let place_in =
            |room: &Grant| used.start.checked_sub(room.range().start).filter(|&place| room.fits(place, bytes));
        if let Some((room, place)) = room.and_then(|room| place_in(&room).map(|place| (room, place))) {
            return Some(room.into_lease(place, bytes));
        }
        let skipped = place_in(&self.spares.front()?.room)?;
        let Spare { room, since } = self.spares.pop_front()?;
        let end = spare_for(skipped + bytes, room.range().len());
        let (front, rest) = room.split_at(end);
        self.spares.push_front(Spare { room: rest, since });
        Some(front.into_lease(skipped, bytes))
    }
}

fn no_room(bytes: usize) -> Error {
    Error::OutOfMemory { bytes, source: std::io::ErrorKind::OutOfMemory.into() }
}
