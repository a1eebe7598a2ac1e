//! [`Unclaimed`]: batches that the consumer fetches itself where no thread comes first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::IndexBatch;

/// A batch and its ticket.
type Ticketed = (u64, Arc<IndexBatch>);

/// Batches that nobody has begun, and that take about as long as to wake a thread: a thread that is awake takes one after the
/// other, and the consumer takes one too where it would have to wait. So neither sleeps while there is something to do, and
/// who is awake is not woken for every batch.
#[derive(Default)]
pub(super) struct Unclaimed {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    batches: VecDeque<Ticketed>,
    /// The threads that take from here, those that are about to included.
    threads: usize,
}

impl Unclaimed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch. Tickets are offered in rising order.
    pub(super) fn offer(&self, ticket: u64, indices: Arc<IndexBatch>) {
        self.state().batches.push_back((ticket, indices));
    }

    /// For the consumer, who waits for `wanted`: that one if nobody has begun it, or else the first.
    pub(super) fn claim(&self, wanted: u64) -> Option<Ticketed> {
        let mut state = self.state();
        let place = state.batches.iter().position(|(ticket, _)| *ticket == wanted).unwrap_or(0);
        state.batches.remove(place)
    }

    /// For a thread that has [begun](Self::wants_thread): the next batch. With nothing the thread counts as gone.
    pub(super) fn claim_on_thread(&self) -> Option<Ticketed> {
        let mut state = self.state();
        let next = state.batches.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    /// Whether one more thread should begin to take from here, of which there are to be at most `most`. It is counted as if it
    /// had begun: it must, or [`gone`](Self::gone) be called.
    pub(super) fn wants_thread(&self, most: usize) -> bool {
        let mut state = self.state();
        let is_wanted = state.threads < most && !state.batches.is_empty();
        state.threads += usize::from(is_wanted);
        is_wanted
    }

    /// A thread that was counted does not come.
    pub(super) fn gone(&self) {
        self.state().threads -= 1;
    }
}
