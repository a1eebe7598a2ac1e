//! [`Tasks`]: counts the running tasks of a window, and keeps others from starting.

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

/// A running task, until it is dropped.
pub(super) struct Running(Arc<Tasks>);

impl Tasks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task; returns None if the tasks were canceled.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Running> {
        let mut state = self.state();
        if state.is_cancelled {
            return None;
        }
        state.running += 1;
        Some(Running(Arc::clone(self)))
    }

    /// Prevents further tasks from starting.
    pub(super) fn cancel(&self) {
        self.state().is_cancelled = true;
    }

    /// Waits until no task is running.
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::Builder;

    use super::*;

    #[test]
    fn join_returns_after_a_task_has_panicked() {
        let tasks = Arc::new(Tasks::default());
        let (begun, may_panic) = (channel(), channel::<()>());
        let of_thread = Arc::clone(&tasks);
        let panicking = Builder::new().spawn(move || {
            let _running = of_thread.begin().unwrap();
            begun.0.send(()).unwrap();
            may_panic.1.recv().unwrap();
            panic!("a task panics");
        });
        let panicking = panicking.unwrap();
        begun.1.recv().unwrap();
        let (joined, has_joined) = channel();
        let waiting = Arc::clone(&tasks);
        let waits = Builder::new().spawn(move || {
            waiting.join();
            joined.send(()).unwrap();
        });
        waits.unwrap();
        tasks.cancel();
        assert!(tasks.begin().is_none());
        may_panic.0.send(()).unwrap();
        assert!(panicking.join().is_err());
        has_joined.recv_timeout(std::time::Duration::from_secs(60)).expect("join returns");
    }
}
