//! [`Reorder`]: threads put batches here, and the consumer waits for the one that it needs.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "futures")]
use std::task::Waker;
use std::time::Instant;

use super::Held;
use crate::Result;
use crate::error::ignore_panic;

/// The result of a ticket, and its count in the bytes ahead, held until the consumer takes it.
type Arrival<B> = (Result<B>, Option<Held>);

/// Fetched batches by ticket. Each ticket is put exactly once, which wakes the consumer.
pub(super) struct Reorder<B> {
    ready: Mutex<Ready<B>>,
    arrived: Condvar,
}

struct Ready<B> {
    batches: BTreeMap<u64, Arrival<B>>,
    is_closed: bool,
    /// The waker to notify, and the ticket that it waits for, or None for any ticket.
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

    /// Stores the batch of `ticket`. Called from the thread that fetched it.
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
        // Outside the lock: a waker may run the waiting task immediately.
        #[cfg(feature = "futures")]
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Drops the stored batches and all that are put later: the consumer takes no more, and threads that have not
    /// noticed yet must not keep batches until they do.
    pub(super) fn close(&self) {
        let mut ready = self.ready();
        ready.is_closed = true;
        let batches = mem::take(&mut ready.batches);
        // Outside the lock: dropping user values may panic.
        drop(ready);
        for batch in batches {
            ignore_panic(|| drop(batch));
        }
    }

    /// True if the batch of `wanted`, or of any ticket if that is `None`, is stored.
    pub(super) fn has(&self, wanted: Option<u64>) -> bool {
        let ready = self.ready();
        wanted.map_or(!ready.batches.is_empty(), |ticket| ready.batches.contains_key(&ticket))
    }

    /// Waits until the batch of `wanted`, or of any ticket if that is `None`, is stored; returns None if `deadline`
    /// passes first. Called only by the consumer.
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

    /// Like [`take`](Self::take), but instead of waiting, it arranges for `waker` to be woken when the batch is stored.
    #[cfg(feature = "futures")]
    pub(super) fn poll(&self, wanted: Option<u64>, waker: &Waker) -> Option<(u64, Result<B>)> {
        let mut ready = self.ready();
        let found = ready.take(wanted);
        ready.waiting = found.is_none().then(|| (wanted, waker.clone()));
        found
    }
}
