//! [`AnswerWait`]: a consumer's sleep until a worker has answered.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::{EventBell, EventWoken, Ring};

/// Waits for answers of worker processes. It is separate from [`Workers`](super::Workers), so that other threads can
/// send requests and stop workers while one thread sleeps.
pub struct AnswerWait {
    bell: Arc<EventBell>,
    answers: Vec<Ring>,
}

impl AnswerWait {
    pub(super) fn new(bell: Arc<EventBell>, answers: Vec<Ring>) -> Self {
        Self { bell, answers }
    }

    /// Waits for an answer from any worker while the processes with the given descriptors (pidfds) are alive.
    /// Answers that a process sent before it ended are returned first.
    pub fn wait(&mut self, processes: &[BorrowedFd<'_>], timeout: Option<Duration>) -> EventWoken {
        self.bell.wait(|| self.answers.iter().any(|ring| !ring.is_empty()), processes, timeout)
    }
}
