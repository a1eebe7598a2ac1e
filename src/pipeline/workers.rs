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

/// A worker may find one batch this much of its memory large before anybody knows how large they are.
const SPARE: usize = 4;
/// Room that a worker gets for the first batches is at least this; what is not touched costs nothing.
const SMALLEST_LANE: usize = 4 << 20;
/// Address space is not memory, but 47 bits are all there is of it.
const LARGEST_SEGMENT: usize = 1 << 44;

/// The answer to one request.
#[derive(Debug)]
pub struct Answer {
    /// Who answered.
    pub worker: usize,
    /// Which batch.
    pub number: BatchNumber,
    /// What became of it.
    pub outcome: Outcome,
    /// Where its bytes are.
    pub lease: Lease,
    /// The tensors among them.
    pub fields: Vec<PlacedField>,
    /// The bytes that say what is around the tensors.
    pub envelope: Range<usize>,
    /// What counts it as ahead until it is dropped; nothing where nobody counts, or there is no batch.
    pub held: Option<Held>,
}

/// The memory that a consumer shares with its worker processes, and what is under way in it.
///
/// All that is known of who may write where is known here: a worker only ever writes where it was told, so one that is
/// killed at any moment leaves nothing to repair.
pub struct Workers {
    layout: WorkerLayout,
    segment: Arc<Segment>,
    file: OwnedFd,
    bell: Arc<EventBell>,
    stop: SharedWord,
    lanes: Vec<Lane>,
    /// Answers that were taken off the rings and not asked for yet, the oldest first.
    heard: VecDeque<(u64, Answer)>,
    /// Where batches go when users keep so many that the shared memory runs out.
    private: Arc<Slab>,
    bytes_ahead: Option<Arc<BytesAhead>>,
}

/// What the consumer knows of one worker.
struct Lane {
    requests: Ring,
    answers: Ring,
    bell: Bell,
    since: SharedWord,
    request_room: Arc<Arena>,
    batch_room: Arc<Arena>,
    batch_bytes: usize,
    /// What was asked and not answered: a worker answers in the order it was asked.
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
    /// The first batch that may use it; until it is asked for, the worker does not know of it.
    since: Option<BatchNumber>,
}

impl Workers {
    /// Memory for `workers` workers, each with up to `under_way` requests that are not answered, which keeps
    /// `free_slots` free slots per worker.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] when the operating system refuses.
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
            heard: VecDeque::new(),
            private: Arc::new(Slab::new(free_slots)),
            bytes_ahead: None,
        })
    }

    /// Has answers counted in `bytes_ahead` from now on. What is kept free of all workers' memory stays below its bound, too.
    pub fn count_in(&mut self, bytes_ahead: Arc<BytesAhead>) {
        let free_bytes = bytes_ahead.bound() / self.lanes.len().max(1);
        self.lanes.iter().for_each(|lane| lane.batch_room.limit_free_bytes(free_bytes));
        self.bytes_ahead = Some(bytes_ahead);
    }

    /// As much address space as the machine could have use for, or as a limit leaves.
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

    /// What a worker has to be told to find its place: the number of workers, of messages in a ring, of bytes a worker.
    #[must_use]
    pub fn layout(&self) -> (usize, usize, usize) {
        (self.layout.workers, self.layout.capacity, self.layout.lane)
    }

    /// The descriptors that a worker needs: the memory, and the consumer's doorbell.
    #[must_use]
    pub fn descriptors(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.file.as_fd(), self.bell.as_fd())
    }

    /// The end of `worker`, in a process that was forked from this one and has inherited the memory.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] when no file can be opened.
    pub fn end(&self, worker: usize) -> Result<WorkerEnd> {
        let bell = self.bell.as_fd().try_clone_to_owned().map_err(|source| Error::SharedMemory {
            operation: "an open file",
            bytes: EventBell::BYTES,
            limit: "ulimit -n",
            source,
        })?;
        Ok(WorkerEnd::over(&self.layout, Arc::clone(&self.segment), bell, worker))
    }

    /// Makes the memory ready for new worker processes; those before them have ended.
    pub fn renew(&mut self) {
        self.forget();
        self.stop.store(0);
        for lane in &mut self.lanes {
            lane.requests.reset();
            lane.answers.reset();
            lane.since.store(0);
        }
    }

    /// Lets go of what is under way and of what nobody has received; the worker processes have ended.
    pub fn forget(&mut self) {
        self.heard.clear();
        for lane in &mut self.lanes {
            lane.under_way.clear();
            lane.spares.clear();
        }
    }

    /// Asks `worker` to do a task; `payload` is passed to it. Returns at once.
    ///
    /// # Errors
    /// [`Error::Worker`] when more is under way than was agreed; [`Error::OutOfMemory`] when there is no room for the
    /// request.
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
            return Err(Error::Worker { reason: format!("worker {worker} has more requests than were agreed") });
        }
        if kind == TaskKind::Fetch {
            lane.under_way.push_back(under_way);
        } else if let Some(payload) = under_way._payload {
            // Read before the next answer, whichever that is.
            let number = BatchNumber { batch_in_epoch: u64::MAX, ..number };
            lane.under_way.push_back(UnderWay { number, room: None, _payload: Some(payload) });
        }
        lane.bell.ring();
        Ok(())
    }

    /// Tells all workers to stop, after what they are doing.
    pub fn stop(&mut self) {
        self.stop.store(1);
        for lane in &self.lanes {
            lane.bell.ring();
        }
    }

    /// What waits for answers. One thread at a time may wait, and it needs none of this meanwhile.
    #[must_use]
    pub fn answer_wait(&self) -> AnswerWait {
        let ring = |worker| Ring::new(Arc::clone(&self.segment), self.layout.answers(worker), self.layout.capacity);
        AnswerWait::new(Arc::clone(&self.bell), (0..self.layout.workers).map(ring).collect())
    }

    /// The oldest answer that nobody has taken, if there is one. Waits for none.
    ///
    /// # Errors
    /// [`Error::Worker`] when an answer makes no sense.
    pub fn take(&mut self) -> Result<Option<Answer>> {
        // All that there is, so that it is counted.
        self.listen()?;
        Ok(self.heard.pop_front().map(|(_, answer)| answer))
    }

    /// Takes all answers off the rings. Waits for none.
    ///
    /// # Errors
    /// [`Error::Worker`] when an answer makes no sense.
    pub fn listen(&mut self) -> Result<()> {
        let before = self.heard.len();
        for (worker, lane) in self.lanes.iter_mut().enumerate() {
            while let Some(words) = lane.answers.pop() {
                let nonsense = || Error::Worker { reason: format!("worker {worker} answered nonsense") };
                let reply = Reply::from_words(words).ok_or_else(nonsense)?;
                let lease = lane.take(&reply, &self.private)?.ok_or_else(nonsense)?;
                let fields = decode(&lease.bytes()[reply.table..reply.envelope], reply.table)?;
                let envelope = reply.envelope..lease.len();
                let (number, outcome) = (reply.number, reply.outcome);
                let counting = self.bytes_ahead.as_ref().filter(|_| outcome == Outcome::Batch);
                let held = counting.map(|ahead| ahead.hold(lease.len()));
                let answer = Answer { worker, number, outcome, lease, fields, envelope, held };
                self.heard.push_back((reply.at, answer));
            }
        }
        self.heard.make_contiguous()[before..].sort_by_key(|(at, _)| *at);
        Ok(())
    }

    /// Since when `worker` has been busy with one batch, in nanoseconds of the monotonic clock; 0 when it waits.
    #[must_use]
    pub fn busy_since(&self, worker: usize) -> u64 {
        self.lanes[worker].since.load()
    }

    /// The range of the memory in which the Python stack of `worker` is looked for.
    #[must_use]
    pub fn call_stack(&self, worker: usize) -> Range<usize> {
        self.layout.stack(worker)
    }

    /// What `worker` wrote about its Python stack.
    #[must_use]
    pub fn stack_of(&self, worker: usize) -> Vec<u8> {
        let stack = self.segment.copy_out(self.layout.stack(worker));
        stack.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
    }

    /// The memory that batches take, those that are kept included, in bytes.
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

    /// Spare room that the worker must be told of, if there is any.
    fn spare_to_announce(&mut self) -> Option<&mut Spare> {
        let enough = self.batch_bytes / SPARE / 2;
        if self.spares.back().is_none_or(|spare| spare.room.range().len() < enough)
            && let Some(room) = self.batch_room.reserve(self.batch_bytes / SPARE)
        {
            self.spares.push_back(Spare { room, since: None });
        }
        self.spares.back_mut().filter(|spare| spare.since.is_none())
    }

    /// The memory that `reply` says was used: nothing when it is not where the worker was told to write.
    fn take(&mut self, reply: &Reply, private: &Arc<Slab>) -> Result<Option<Lease>> {
        while self.under_way.front().is_some_and(|request| request.number != reply.number) {
            self.under_way.pop_front();
        }
        let Some(UnderWay { room, .. }) = self.under_way.pop_front() else { return Ok(None) };
        while self.spares.get(1).is_some_and(|newer| newer.since == Some(reply.number)) {
            self.spares.pop_front();
        }
        let (used, bytes) = (&reply.used, reply.used.len());
        let place_in =
            |room: &Grant| used.start.checked_sub(room.range().start).filter(|&place| room.fits(place, bytes));
        let lease = if let Some((room, place)) = room.and_then(|room| place_in(&room).map(|place| (room, place))) {
            room.into_lease(place, bytes)
        } else if self.spares.front().is_some_and(|spare| place_in(&spare.room).is_some())
            && let Some(Spare { room, since }) = self.spares.pop_front()
        {
            let skipped = used.start - room.range().start;
            let end = spare_for(skipped + bytes, room.range().len());
            let (front, rest) = room.split_at(end);
            self.spares.push_front(Spare { room: rest, since });
            front.into_lease(skipped, bytes)
        } else {
            return Ok(None);
        };
        if self.batch_room.leased_bytes() <= self.batch_bytes / 2 {
            return Ok(Some(lease));
        }
        let mut copy = private.lease(bytes)?;
        copy.bytes_mut().copy_from_slice(lease.bytes());
        Ok(Some(copy))
    }
}

fn no_room(bytes: usize) -> Error {
    Error::OutOfMemory { bytes, source: std::io::ErrorKind::OutOfMemory.into() }
}
