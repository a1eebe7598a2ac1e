//! [`WorkerLayout`]: the layout of the memory that a loader shares with its worker processes.

use std::ops::Range;

use crate::memory::{Bell, EventBell, Ring, SharedWord};

/// Rooms start and end at page boundaries, so that they can be returned to the operating system.
const PAGE: usize = 4096;
/// Room for the Python stack of a worker, as `faulthandler` writes it: 100 lines of 1,100 bytes at most.
const STACK: usize = 256 << 10;
/// One part in this many of a worker's memory is for requests, which are lists of indices.
const REQUESTS: usize = 16;

/// Shared memory for `workers` workers: a page for the consumer, and for each worker its rings, words, and room for
/// batches.
///
/// Three numbers determine it, so that consumer and worker agree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerLayout {
    pub(crate) workers: usize,
    /// Number of messages in a ring: a power of two.
    pub(crate) capacity: usize,
    /// Number of bytes in one worker's rooms: whole pages.
    pub(crate) lane: usize,
}

impl WorkerLayout {
    /// Returns the number of bytes that a worker needs in addition to its rooms.
    pub(crate) fn overhead(capacity: usize) -> usize {
        (2 * Ring::bytes(capacity) + Bell::BYTES + 2 * SharedWord::BYTES + 256).next_multiple_of(PAGE) + STACK
    }

    /// Returns the total number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.rooms() + self.workers * self.lane
    }

    /// Returns the offset of the consumer's doorbell.
    pub(crate) fn consumer_bell(&self) -> usize {
        const { assert!(EventBell::BYTES <= PAGE / 2) };
        0
    }

    /// Returns the offset of the word that tells all workers to stop.
    pub(crate) fn stop(&self) -> usize {
        PAGE / 2
    }

    fn start(&self, worker: usize) -> usize {
        assert!(worker < self.workers, "worker {worker} of {}", self.workers);
        PAGE + worker * Self::overhead(self.capacity)
    }

    /// Returns the offset of the ring of requests to `worker`.
    pub(crate) fn requests(&self, worker: usize) -> usize {
        self.start(worker)
    }

    /// Returns the offset of the ring of its answers.
    pub(crate) fn answers(&self, worker: usize) -> usize {
        self.start(worker) + Ring::bytes(self.capacity).next_multiple_of(64)
    }

    /// Returns the offset of its doorbell.
    pub(crate) fn bell(&self, worker: usize) -> usize {
        self.answers(worker) + Ring::bytes(self.capacity).next_multiple_of(64)
    }

    /// Returns the offset of the word for when its current task started: nanoseconds of the monotonic clock, 0 while it
    /// waits.
    pub(crate) fn since(&self, worker: usize) -> usize {
        self.bell(worker) + Bell::BYTES.next_multiple_of(64)
    }

    /// Returns the range where its Python stack is written on demand.
    pub(crate) fn stack(&self, worker: usize) -> Range<usize> {
        let end = self.start(worker) + Self::overhead(self.capacity);
        end - STACK..end
    }

    /// Returns the offset of the rooms, from which leases are cut: after all rings and words.
    fn rooms(&self) -> usize {
        PAGE + self.workers * Self::overhead(self.capacity)
    }

    /// Returns the room for its requests.
    pub(crate) fn request_room(&self, worker: usize) -> Range<usize> {
        let start = self.rooms() + worker * self.lane;
        start..start + self.lane / REQUESTS / PAGE * PAGE
    }

    /// Returns the room for the batches that it builds.
    pub(crate) fn batch_room(&self, worker: usize) -> Range<usize> {
        self.request_room(worker).end..self.rooms() + (worker + 1) * self.lane
    }
}
