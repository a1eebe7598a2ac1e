//! [`Reorder`]: where threads leave their batches, and the consumer waits for the one it wants.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "futures")]
use std::task::Waker;
use std::time::Instant;

use super::Held;
use crate::Result;
use crate::error::ignore_panic;

/// What came of a ticket, and how it is counted until the consumer takes it.
type Arrival<B> = (Result<B>, Option<Held>);

/// Fetched batches by ticket. A ticket is put exactly once, and that wakes the consumer.
pub(super) struct Reorder<B> {
    ready: Mutex<Ready<B>>,
    arrived: Condvar,
}

struct Ready<B> {
    batches: BTreeMap<u64, Arrival<B>>,
    is_closed: bool,
    /// Who is to be told, and of which ticket, or of any.
    #[cfg(feature = "futures")]
    waiting: Option<(Option<u64>, Waker)>,
}

impl<B> Ready<B> {
    fn take(&mut self, wanted: Option<u64>) -> Option<(u64, Result<B>)> {
        let (ticket, (batch, _)) = match wanted {
            Some(ticket) => self.batches.remove_entry(&ticket),
            None => self.batches.pop_first(),
        }?;
        Some((ticket, batch))
    }
}

impl<B> Default for Reorder<B> {
    fn default() -> Self {
        let ready = Ready {
            batches: BTreeMap::new(),
            is_closed: false,
            #[cfg(feature = "futures")]
            waiting: None,
        };
        Self { ready: Mutex::new(ready), arrived: Condvar::new() }
    }
}

impl<B> Reorder<B> {
    fn ready(&self) -> MutexGuard<'_, Ready<B>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the batch of `ticket`. Called from the thread that fetched it.
    pub(super) fn put(&self, ticket: u64, batch: Result<B>, held: Option<Held>) {
        let mut ready = self.ready();
        if ready.is_closed {
            return;
        }
        ready.batches.insert(ticket, (batch, held));
        #[cfg(feature = "futures")]
        let waiting = ready.waiting.take_if(|(wanted, _)| wanted.is_none_or(|wanted| wanted == ticket));
        drop(ready);
        self.arrived.notify_all();
        // Behind the lock: a waker may run whoever waits here and now.
        #[cfg(feature = "futures")]
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Drops what is there and what is put from now on: the consumer takes nothing any more, and threads that have yet to find
    /// out must not keep batches that long.
    pub(super) fn close(&self) {
        let mut ready = self.ready();
        ready.is_closed = true;
        let batches = mem::take(&mut ready.batches);
        // Behind the lock: these are values of the user's, whose end may panic.
        drop(ready);
        for batch in batches {
            ignore_panic(|| drop(batch));
        }
    }

    /// Whether the batch of `wanted`, or of any ticket when that is `None`, is there.
    pub(super) fn has(&self, wanted: Option<u64>) -> bool {
        let ready = self.ready();
        wanted.map_or(!ready.batches.is_empty(), |ticket| ready.batches.contains_key(&ticket))
    }

    /// Waits until the batch of `wanted`, or of any ticket when that is `None`, is there; nothing when `deadline` passes
    /// first. Called from the consumer only.
    pub(super) fn take(&self, wanted: Option<u64>, deadline: Instant) -> Option<(u64, Result<B>)> {
        let mut ready = self.ready();
        loop {
            if let Some(found) = ready.take(wanted) {
                return Some(found);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            ready = self.arrived.wait_timeout(ready, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// As [`take`](Self::take), but where it would wait `waker` is woken when the batch is there.
    #[cfg(feature = "futures")]
    pub(super) fn poll(&self, wanted: Option<u64>, waker: &Waker) -> Option<(u64, Result<B>)> {
        let mut ready = self.ready();
        let found = ready.take(wanted);
        ready.waiting = found.is_none().then(|| (wanted, waker.clone()));
        found
    }
}
