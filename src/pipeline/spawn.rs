//! [`Spawn`]: whose threads a window uses.

use super::Pool;
use crate::memory::generation;
use crate::{Error, Result};

/// Threads that run tasks which borrow what lives as long as `'scope`.
pub(crate) trait Spawn<'scope>: Send + Sync {
    /// Runs `task` on one of the threads, soon. Tasks begin in the order in which they were given.
    ///
    /// # Errors
    /// [`Error::Threads`] when there are no threads that could run it.
    fn spawn(&self, task: Box<dyn FnOnce() + Send + 'scope>) -> Result<()>;

    /// How many there are.
    fn threads(&self) -> usize;

    /// Whether the calling thread is one of them: there it must not wait for what others of their tasks do.
    fn has_current_thread(&self) -> bool {
        false
    }

    /// Whether the calling thread can do what it would wait for.
    fn can_help(&self) -> bool {
        false
    }

    /// Runs a task that no thread has begun, and says whether there was one.
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
        Pool::has_current_thread(self)
    }

    fn can_help(&self) -> bool {
        Pool::can_help(self)
    }

    fn help(&self) -> bool {
        Pool::help(self)
    }
}

/// Fails in a forked child, where threads that were not started by a [`Pool`] are gone: what they are given would never run.
pub(super) fn check_generation(started_in: u64, threads: usize) -> Result<()> {
    if started_in == generation() {
        return Ok(());
    }
    let reason = "they were started before this process was forked: make a loader in the child, or give it `threads`";
    Err(Error::Threads { threads, reason: reason.into() })
}
