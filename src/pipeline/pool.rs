//! [`Pool`]: the threads that fetch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::memory::PerProcess;
use crate::{Error, Result};

/// A number of threads, started at the first task and not before, and started anew in a forked child.
///
/// # Example
/// ```
/// use sluicegate::Pool;
/// let pool = Pool::new(2);
/// let (sender, receiver) = std::sync::mpsc::channel();
/// pool.spawn(move || sender.send(21 * 2).unwrap()).unwrap();
/// assert_eq!(receiver.recv().unwrap(), 42);
/// ```
pub struct Pool {
    threads: usize,
    started: PerProcess<Mutex<Option<ThreadPool>>>,
}

impl Pool {
    /// A pool of `threads` threads (at least one), none of which runs yet.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), started: PerProcess::new() }
    }

    /// The number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `task` on one of the threads, soon.
    ///
    /// # Errors
    /// [`Error::Threads`] when the operating system starts no threads.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut started = self.started.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match &*started {
            Some(pool) => pool,
            None => started.insert(self.start()?),
        };
        pool.spawn(task);
        Ok(())
    }

    fn start(&self) -> Result<ThreadPool> {
        ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|thread| format!("sluice-fetch-{thread}"))
            .build()
            .map_err(|error| Error::Threads { threads: self.threads, reason: error.to_string() })
    }
}

/// Runs `work`; a panic becomes an error of the batch that it happened in.
pub(super) fn catch<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // What the work was writing to is dropped with its error, so nobody sees it half done.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        Err(Error::Panic { message })
    })
}
