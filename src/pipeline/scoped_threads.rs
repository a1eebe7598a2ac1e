//! [`ScopedThreads`]: threads that borrow from the stack.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, Scope, ThreadId};
use std::time::Duration;

use super::spawn::{Spawn, check_generation};
use crate::error::ignore_panic;
use crate::memory::generation;
use crate::{Error, Result};

/// A thread without a task stops after this time, and is restarted for the next task: a leaked loader must not keep its
/// scope from ending.
const IDLE: Duration = Duration::from_secs(1);

type Task<'scope> = Box<dyn FnOnce() + Send + 'scope>;

/// Threads of a [`Scope`], started when there is work. They stop when this is dropped, or when no task has arrived for
/// a second.
pub(crate) struct ScopedThreads<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    threads: usize,
    queue: Arc<Queue<'scope>>,
    generation: u64,
}

struct Queue<'scope> {
    tasks: Mutex<Tasks<'scope>>,
    changed: Condvar,
}

struct Tasks<'scope> {
    waiting: VecDeque<Task<'scope>>,
    /// The number of threads, and how many of them are waiting for a task.
    running: usize,
    ids: Vec<ThreadId>,
    idle: usize,
    closed: bool,
}

impl<'scope, 'env> ScopedThreads<'scope, 'env> {
    /// Returns up to `threads` threads (at least one) of `scope`, none of which is running yet.
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, threads: usize) -> Self {
        let tasks = Tasks { waiting: VecDeque::new(), running: 0, ids: Vec::new(), idle: 0, closed: false };
        let queue = Arc::new(Queue { tasks: Mutex::new(tasks), changed: Condvar::new() });
        Self { scope, threads: threads.max(1), queue, generation: generation() }
    }

    fn start(&self) -> Result<()> {
        let queue = Arc::clone(&self.queue);
        let started = Builder::new().name("sluice-scoped".into()).spawn_scoped(self.scope, move || queue.work());
        started.map(drop).map_err(|error| Error::Threads { threads: self.threads, reason: error.to_string() })
    }
}

impl<'scope> Spawn<'scope> for ScopedThreads<'scope, '_> {
    fn spawn(&self, task: Task<'scope>) -> Result<()> {
        check_generation(self.generation, self.threads)?;
        let mut tasks = self.queue.tasks();
        if tasks.idle <= tasks.waiting.len() && tasks.running < self.threads {
            match self.start() {
                Ok(()) => tasks.running += 1,
                // Fewer threads than requested are slower, but not a reason to fail.
                Err(error) if tasks.running == 0 => return Err(error),
                Err(_) => {}
            }
        }
        tasks.waiting.push_back(task);
        drop(tasks);
        self.queue.changed.notify_one();
        Ok(())
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn has_current_thread(&self) -> bool {
        // In a forked child the lock may be held forever, and none of the threads exists.
        self.generation == generation() && self.queue.tasks().ids.contains(&thread::current().id())
    }
}

impl<'scope> Queue<'scope> {
    fn tasks(&self) -> MutexGuard<'_, Tasks<'scope>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main loop of a thread.
    fn work(&self) {
        let mut tasks = self.tasks();
        tasks.ids.push(thread::current().id());
        loop {
            if let Some(task) = tasks.waiting.pop_front() {
                drop(tasks);
                // A fetch catches panics in user code, but not those of a waker, or of dropping a batch that was not
                // taken. A thread that ended this way would still be counted, so it would never be replaced.
                ignore_panic(task);
                tasks = self.tasks();
                continue;
            }
            tasks.idle += 1;
            let may_wait = |tasks: &mut Tasks<'_>| tasks.waiting.is_empty() && !tasks.closed;
            let waited = self.changed.wait_timeout_while(tasks, IDLE, may_wait);
            tasks = waited.unwrap_or_else(PoisonError::into_inner).0;
            tasks.idle -= 1;
            if tasks.waiting.is_empty() {
                tasks.running -= 1;
                tasks.ids.retain(|id| *id != thread::current().id());
                return;
            }
        }
    }
}

impl Drop for ScopedThreads<'_, '_> {
    fn drop(&mut self) {
        // In a forked child the lock may be held forever, and there is no thread to notify.
        if self.generation == generation() {
            self.queue.tasks().closed = true;
            self.queue.changed.notify_all();
        }
    }
}
