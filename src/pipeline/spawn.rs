//! [`Spawn`]: the threads that a window uses.

use rayon::Yield;

use super::Pool;
use crate::memory::generation;
use crate::{Error, Result};

/// Threads that run tasks, which may borrow values that live as long as `'scope`.
pub(crate) trait Spawn<'scope>: Send + Sync {
    /// Schedules `task` to run on one of the threads. Tasks start in the order in which they were submitted.
    ///
    /// # Errors
    /// [`Error::Threads`] if no thread could run it.
    fn spawn(&self, task: Box<dyn FnOnce() + Send + 'scope>) -> Result<()>;

    /// Returns the number of threads.
    fn threads(&self) -> usize;

    /// True if the calling thread is one of them: it must then not wait for their other tasks.
    fn has_current_thread(&self) -> bool {
        false
    }

    /// True if the calling thread can run the task that it would wait for.
    fn can_help(&self) -> bool {
        false
    }

    /// Runs a task that no thread has started; returns true if there was one.
    fn help(&self) -> bool {
        false
    }
}

impl Spawn<'static> for Pool {
    fn spawn(&self, task: Box<dyn FnOnce() + Send>) -> Result<()> {
        Pool::spawn(self, task)
    }

    fn threads(&self) -> usize {
        Pool::threads(self)
    }

    fn has_current_thread(&self) -> bool {
        if self.given().is_some() { self.can_help() } else { self.has_started_current_thread() }
    }

    fn can_help(&self) -> bool {
        self.given().is_some_and(|pool| pool.current_thread_index().is_some())
    }

    fn help(&self) -> bool {
        self.given().is_some_and(|pool| pool.yield_now() == Some(Yield::Executed))
    }
}

/// Fails in a forked child, where only threads started by a [`Pool`] are replaced: a task given to others would never
/// run.
pub(super) fn check_generation(started_in: u64, threads: usize) -> Result<()> {
    if started_in == generation() {
        return Ok(());
    }
    let reason = "they were started before this process was forked; make a loader in the child process, or give it \
                  `threads`";
    Err(Error::Threads { threads, reason: reason.into() })
}
