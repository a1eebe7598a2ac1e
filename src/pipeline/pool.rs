//! [`Pool`]: the threads that fetch.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder, Yield};

use crate::error::discard_panic;
use crate::memory::{PerProcess, generation};
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
    /// Somebody else's threads, and the generation of the process that they are in.
    given: Option<(u64, Arc<ThreadPool>)>,
}

impl Pool {
    /// A pool of `threads` threads (at least one), none of which runs yet.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), started: PerProcess::new(), given: None }
    }

    /// The threads of `pool`, which may have other work beside this. A forked child, which does not have them, starts as many
    /// of its own.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::Pool;
    /// let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap());
    /// assert_eq!(Pool::of(threads).threads(), 3);
    /// ```
    #[must_use]
    pub fn of(pool: Arc<ThreadPool>) -> Self {
        Self { threads: pool.current_num_threads(), started: PerProcess::new(), given: Some((generation(), pool)) }
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
        if let Some(pool) = self.given() {
            // From one of its own threads too, the batch that is asked for first is begun first.
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

    /// Whether the calling thread is one of its own: there it must not wait for what others of its tasks do.
    pub(super) fn has_current_thread(&self) -> bool {
        if let Some(pool) = self.given() {
            return pool.current_thread_index().is_some();
        }
        let started = self.started.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        started.as_ref().is_some_and(|pool| pool.current_thread_index().is_some())
    }

    /// Whether the calling thread is one of a pool that was given: it can do what it would wait for.
    pub(super) fn can_help(&self) -> bool {
        self.given().is_some_and(|pool| pool.current_thread_index().is_some())
    }

    /// Runs a task that no thread has begun, and says whether there was one; never where it can't [help](Self::can_help).
    pub(super) fn help(&self) -> bool {
        self.given().is_some_and(|pool| pool.yield_now() == Some(Yield::Executed))
    }

    fn given(&self) -> Option<&Arc<ThreadPool>> {
        self.given.as_ref().filter(|(of, _)| *of == generation()).map(|(_, pool)| pool)
    }

    fn start(&self) -> Result<ThreadPool> {
        ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|thread| format!("sluice-fetch-{thread}"))
            // A fetch catches what the user's code panics with. Without this a waker that panics, or the end of a batch that
            // nobody took, would end the process.
            .panic_handler(discard_panic)
            .build()
            .map_err(|error| Error::Threads { threads: self.threads, reason: error.to_string() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // In a forked child nobody is there to be ended, and a lock inside may have been held at the fork.
        if let Some((of, pool)) = self.given.take()
            && of != generation()
        {
            mem::forget(pool);
        }
    }
}
