//! [`Pool`]: the threads that fetch.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::discard_panic;
use crate::memory::{PerProcess, generation};
use crate::{Error, Result};

/// A fixed number of threads, started at the first task, and started again in a forked child.
///
/// # Example
/// ```
/// use sluicegate::internal::Pool;
/// let pool = Pool::new(2);
/// let (sender, receiver) = std::sync::mpsc::channel();
/// pool.spawn(move || sender.send(21 * 2).unwrap()).unwrap();
/// assert_eq!(receiver.recv().unwrap(), 42);
/// ```
pub struct Pool {
    threads: usize,
    started: PerProcess<Mutex<Option<ThreadPool>>>,
    /// Threads supplied by the caller, and the generation of the process that they belong to.
    given: Option<(u64, Arc<ThreadPool>)>,
}

impl Pool {
    /// Returns a pool of `threads` threads (at least one), none of which is running yet.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), started: PerProcess::new(), given: None }
    }

    /// Returns a pool that uses the threads of `pool`, which may also do other work. A forked child, which does not
    /// have them, starts the same number of its own.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::internal::Pool;
    /// let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap());
    /// assert_eq!(Pool::of(threads).threads(), 3);
    /// ```
    #[must_use]
    pub fn of(pool: Arc<ThreadPool>) -> Self {
        Self { threads: pool.current_num_threads(), started: PerProcess::new(), given: Some((generation(), pool)) }
    }

    /// Returns the number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Schedules `task` to run on one of the threads.
    ///
    /// # Errors
    /// [`Error::Threads`] if the operating system cannot start the threads.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        if let Some(pool) = self.given() {
            // In FIFO order even when called from one of its own threads, so that the batch requested first is started
            // first.
            pool.spawn_fifo(task);
            return Ok(());
        }
        let mut started = self.started.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match &*started {
            Some(pool) => pool,
            None => started.insert(self.start()?),
        };
        pool.spawn(task);
        Ok(())
    }

    /// The threads supplied by the caller, if they belong to this process.
    pub(super) fn given(&self) -> Option<&Arc<ThreadPool>> {
        self.given.as_ref().filter(|(of, _)| *of == generation()).map(|(_, pool)| pool)
    }

    /// True if the calling thread is one of those that the pool has started.
    pub(super) fn has_started_current_thread(&self) -> bool {
        let started = self.started.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        started.as_ref().is_some_and(|pool| pool.current_thread_index().is_some())
    }

    fn start(&self) -> Result<ThreadPool> {
        ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|thread| format!("sluice-fetch-{thread}"))
            // A fetch catches panics in user code. Without this handler, a panic in a waker, or in dropping a batch
            // that was not taken, would end the process.
            .panic_handler(discard_panic)
            .build()
            .map_err(|error| Error::Threads { threads: self.threads, reason: error.to_string() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // In a forked child there are no threads to stop, and a lock inside may have been held at the fork.
        if let Some((of, pool)) = self.given.take()
            && of != generation()
        {
            mem::forget(pool);
        }
    }
}
