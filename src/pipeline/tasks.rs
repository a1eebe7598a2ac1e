//! [`Tasks`]: which of a window's tasks run now, and whether the others still should.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The tasks of one window.
#[derive(Default)]
pub(super) struct Tasks {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    is_cancelled: bool,
}

/// One that runs, until it is dropped.
pub(super) struct Running(Arc<Tasks>);

impl Tasks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one; nothing where nobody wants what it does any more.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Running> {
        let mut state = self.state();
        if state.is_cancelled {
            return None;
        }
        state.running += 1;
        Some(Running(Arc::clone(self)))
    }

    /// Lets none begin any more.
    pub(super) fn cancel(&self) {
        self.state().is_cancelled = true;
    }

    /// Waits until none runs.
    pub(super) fn join(&self) {
        let mut state = self.state();
        while state.running > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state().running -= 1;
        self.0.ended.notify_all();
    }
}
