//! [`WorkerLayout`]: what lies where in the memory that a loader shares with its worker processes.

use std::ops::Range;

use crate::memory::{Bell, EventBell, Ring, SharedWord};

/// Rooms start and end at pages, so that they can be given back.
const PAGE: usize = 4096;
/// Room for the Python stack of a worker, as `faulthandler` writes it: 100 lines of 1,100 bytes at most.
const STACK: usize = 256 << 10;
/// Of the memory of a worker, this part is for requests: lists of indices.
const REQUESTS: usize = 16;

/// Shared memory for `workers` workers: a page for the consumer, and for each worker rings, words and room for batches.
///
/// It follows from three numbers, so that consumer and worker agree on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerLayout {
    pub(crate) workers: usize,
    /// The number of messages that a ring takes: a power of two.
    pub(crate) capacity: usize,
    /// The bytes of one worker's rooms: whole pages.
    pub(crate) lane: usize,
}

impl WorkerLayout {
    /// What a worker needs beside the rooms.
    pub(crate) fn overhead(capacity: usize) -> usize {
        (2 * Ring::bytes(capacity) + Bell::BYTES + 2 * SharedWord::BYTES + 256).next_multiple_of(PAGE) + STACK
    }

    /// The number of bytes of all.
    pub(crate) fn bytes(&self) -> usize {
        self.rooms() + self.workers * self.lane
    }

    /// The consumer's doorbell.
    pub(crate) fn consumer_bell(&self) -> usize {
        const { assert!(EventBell::BYTES <= PAGE / 2) };
        0
    }

    /// The word that tells all workers to stop.
    pub(crate) fn stop(&self) -> usize {
        PAGE / 2
    }

    fn start(&self, worker: usize) -> usize {
        assert!(worker < self.workers, "worker {worker} of {}", self.workers);
        PAGE + worker * Self::overhead(self.capacity)
    }

    /// The ring of requests to `worker`.
    pub(crate) fn requests(&self, worker: usize) -> usize {
        self.start(worker)
    }

    /// The ring of its answers.
    pub(crate) fn answers(&self, worker: usize) -> usize {
        self.start(worker) + Ring::bytes(self.capacity).next_multiple_of(64)
    }

    /// Its doorbell.
    pub(crate) fn bell(&self, worker: usize) -> usize {
        self.answers(worker) + Ring::bytes(self.capacity).next_multiple_of(64)
    }

    /// When it began what it is doing, in nanoseconds of the monotonic clock; 0 while it waits.
    pub(crate) fn since(&self, worker: usize) -> usize {
        self.bell(worker) + Bell::BYTES.next_multiple_of(64)
    }

    /// Where its Python stack is written on demand.
    pub(crate) fn stack(&self, worker: usize) -> Range<usize> {
        let end = self.start(worker) + Self::overhead(self.capacity);
        end - STACK..end
    }

    /// Behind all rings and words: rooms that leases are cut from lie apart from them.
    fn rooms(&self) -> usize {
        PAGE + self.workers * Self::overhead(self.capacity)
    }

    /// Room for what it is asked.
    pub(crate) fn request_room(&self, worker: usize) -> Range<usize> {
        let start = self.rooms() + worker * self.lane;
        start..start + self.lane / REQUESTS / PAGE * PAGE
    }

    /// Room for the batches that it makes.
    pub(crate) fn batch_room(&self, worker: usize) -> Range<usize> {
        self.request_room(worker).end..self.rooms() + (worker + 1) * self.lane
    }
}
