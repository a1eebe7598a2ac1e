//! [`SlotCopy`]: a batch that is being copied from one memory to another.

use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Duration;

use super::pool::Pool;
use crate::error::catch;
use crate::memory::{Lease, generation};
use crate::{Error, Result};

/// Ranges of a slot that a [`Pool`] thread copies to separate leases. The slot is free when the last range is copied.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use sluicegate::internal::{Pool, Slab, SlotCopy};
///
/// let (slab, pool) = (Slab::new(4), Pool::new(1));
/// let mut slot = slab.lease(4)?;
/// slot.bytes_mut().copy_from_slice(b"abcd");
/// let mut copy = SlotCopy::begin(&pool, slot, vec![(1..3, slab.lease(2)?)])?;
/// let copied = copy.wait(Duration::from_secs(10))?.expect("four bytes take no ten seconds");
/// assert_eq!(copied[0].bytes(), b"bc");
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub struct SlotCopy {
    state: State,
    generation: u64,
}

enum State {
    Running(Receiver<Result<Vec<Lease>>>),
    Arrived(Result<Vec<Lease>>),
    Given,
}

impl SlotCopy {
    /// Starts to copy each of these ranges of `slot` to its lease.
    ///
    /// # Errors
    /// [`Error::Threads`] if the pool cannot be started.
    ///
    /// # Panics
    /// If the length of a range differs from that of its lease.
    pub fn begin(pool: &Pool, slot: Lease, parts: Vec<(Range<usize>, Lease)>) -> Result<Self> {
        for (range, into) in &parts {
            assert!(range.len() == into.len() && range.end <= slot.len(), "{range:?} into {} bytes", into.len());
        }
        let (sender, copied) = sync_channel(1);
        pool.spawn(move || {
            let copied = catch(move || {
                let copy = |(range, mut into): (Range<usize>, Lease)| {
                    into.bytes_mut().copy_from_slice(&slot.bytes()[range]);
                    into
                };
                Ok(parts.into_iter().map(copy).collect())
            });
            // The receiver may be gone; the copy is then dropped.
            let _ = sender.send(copied);
        })?;
        Ok(Self { state: State::Running(copied), generation: generation() })
    }

    /// True if [`wait`](Self::wait) would return immediately.
    pub fn is_done(&mut self) -> bool {
        if let State::Running(copied) = &self.state {
            match copied.try_recv() {
                Ok(arrived) => self.state = State::Arrived(arrived),
                Err(TryRecvError::Empty) if self.generation == generation() => return false,
                Err(_) => self.state = State::Arrived(Err(lost())),
            }
        }
        true
    }

    /// Returns the leases in the order of the ranges, or None if `patience` runs out first. They are returned only
    /// once.
    ///
    /// # Errors
    /// [`Error::Panic`] if no thread is copying (as in a child that was forked meanwhile), or the leases were returned
    /// before.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<Vec<Lease>>> {
        if let State::Running(copied) = &self.state {
            let is_own_process = self.generation == generation();
            match copied.recv_timeout(if is_own_process { patience } else { Duration::ZERO }) {
                Ok(arrived) => self.state = State::Arrived(arrived),
                Err(RecvTimeoutError::Timeout) if is_own_process => return Ok(None),
                Err(_) => self.state = State::Arrived(Err(lost())),
            }
        }
        match std::mem::replace(&mut self.state, State::Given) {
            State::Arrived(arrived) => arrived.map(Some),
            State::Running(_) | State::Given => {
                Err(Error::Panic { index: None, message: "a batch was requested twice".into() })
            }
        }
    }
}

fn lost() -> Error {
    Error::Panic {
        index: None,
        message:
            "the thread that copied this batch belongs to the parent process: this process was forked while it ran"
                .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Slab;

    #[test]
    fn every_range_is_copied_and_the_slot_is_returned() {
        let (slots, blocks, pool) = (Slab::new(4), Slab::new(4), Pool::new(1));
        for round in 0..50_u8 {
            let mut slot = slots.lease(1000).unwrap();
            slot.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8 ^ round);
            let parts = [0..10, 500..1000, 10..10].map(|range| (range.clone(), blocks.lease(range.len()).unwrap()));
            let mut copy = SlotCopy::begin(&pool, slot, parts.into()).unwrap();
            let copied = copy.wait(Duration::from_secs(10)).unwrap().unwrap();
            assert!(copied[0].bytes().iter().enumerate().all(|(at, byte)| *byte == at as u8 ^ round));
            assert!(copied[1].bytes().iter().enumerate().all(|(at, byte)| *byte == (at + 500) as u8 ^ round));
            assert_eq!(copied[2].len(), 0);
            assert!(copy.wait(Duration::ZERO).is_err(), "they are given once");
        }
        assert_eq!(slots.mapped_bytes(), 4096, "one slot served all rounds");
    }
}
