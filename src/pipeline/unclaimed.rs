//! [`Unclaimed`]: batches that the consumer fetches itself unless a thread does so first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::IndexBatch;

/// A batch and its ticket.
type Ticketed = (u64, Arc<IndexBatch>);

/// Batches that have not started, and that take about as long as waking a thread. An awake thread takes one after
/// another, and the consumer takes one whenever it would have to wait. So neither sleeps while there is work, and an
/// awake thread does not have to be woken for every batch.
#[derive(Default)]
pub(super) struct Unclaimed {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    batches: VecDeque<Ticketed>,
    /// The number of threads that take from here, including those that are about to.
    threads: usize,
}

impl Unclaimed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch. Tickets are offered in ascending order.
    pub(super) fn offer(&self, ticket: u64, indices: Arc<IndexBatch>) {
        self.state().batches.push_back((ticket, indices));
    }

    /// For the consumer, which waits for `wanted`: takes that batch if it has not started, or else the first one.
    pub(super) fn claim(&self, wanted: u64) -> Option<Ticketed> {
        let mut state = self.state();
        let place = state.batches.iter().position(|(ticket, _)| *ticket == wanted).unwrap_or(0);
        state.batches.remove(place)
    }

    /// For a thread that has [started](Self::wants_thread): takes the next batch. After None, the thread no longer
    /// counts.
    pub(super) fn claim_on_thread(&self) -> Option<Ticketed> {
        let mut state = self.state();
        let next = state.batches.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    /// True if one more thread, of at most `most`, should start to take batches. The thread counts as started: it must
    /// start, or [`uncount_thread`](Self::uncount_thread) must be called.
    pub(super) fn wants_thread(&self, most: usize) -> bool {
        let mut state = self.state();
        let is_wanted = state.threads < most && !state.batches.is_empty();
        state.threads += usize::from(is_wanted);
        is_wanted
    }

    /// Records that a counted thread will not start.
    pub(super) fn uncount_thread(&self) {
        self.state().threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_makes_room_for_another() {
        let unclaimed = Unclaimed::default();
        let batch = || Arc::new(IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![0], draws: None });
        unclaimed.offer(0, batch());
        assert!(unclaimed.wants_thread(1) && !unclaimed.wants_thread(1));
        unclaimed.uncount_thread();
        assert!(unclaimed.wants_thread(1));
        // A thread that finds nothing ends, too.
        assert!(unclaimed.claim_on_thread().is_some() && unclaimed.claim_on_thread().is_none());
        unclaimed.offer(1, batch());
        assert!(unclaimed.wants_thread(1) && !unclaimed.wants_thread(1));
    }
}
