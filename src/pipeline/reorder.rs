//! [`Reorder`]: where threads leave their batches, and the consumer waits for the one it wants.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Batch, Held};
use crate::Result;

/// What came of a ticket, and how it is counted until the consumer takes it.
type Arrival = (Result<Batch>, Option<Held>);

/// Fetched batches by ticket. A ticket is put exactly once, and that wakes the consumer.
#[derive(Default)]
pub(super) struct Reorder {
    ready: Mutex<BTreeMap<u64, Arrival>>,
    arrived: Condvar,
}

impl Reorder {
    fn ready(&self) -> MutexGuard<'_, BTreeMap<u64, Arrival>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the batch of `ticket`. Called from the thread that fetched it.
    pub(super) fn put(&self, ticket: u64, batch: Result<Batch>, held: Option<Held>) {
        self.ready().insert(ticket, (batch, held));
        self.arrived.notify_all();
    }

    /// Waits until the batch of `wanted`, or of any ticket when that is `None`, is there; nothing when `deadline` passes
    /// first. Called from the consumer only.
    pub(super) fn take(&self, wanted: Option<u64>, deadline: Instant) -> Option<(u64, Result<Batch>)> {
        let mut ready = self.ready();
        loop {
            let found = match wanted {
                Some(ticket) => ready.remove_entry(&ticket),
                None => ready.pop_first(),
            };
            if let Some((ticket, (batch, _))) = found {
                return Some((ticket, batch));
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            ready = self.arrived.wait_timeout(ready, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
