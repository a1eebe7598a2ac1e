//! Long-running work reports its progress and can be canceled.
//!
//! The caller of long-running work may [`watch`](within) it: the watcher is then called a few times a second on the
//! caller's thread, and may end the work with an error. Unwatched work only pays for reading a thread-local.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The interval between two calls of a watcher.
const INTERVAL: Duration = Duration::from_millis(50);

/// The progress of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The steps that are done.
    pub done: u64,
    /// The total number of steps; 0 if it is not known.
    pub total: u64,
}

/// Called while work is running. Its error ends the work.
pub(crate) type Watcher = Box<dyn FnMut(Progress) -> Result<()>>;

enum Watched {
    /// This thread calls the watcher.
    Here { watcher: Watcher, progress: Progress, last: Instant },
    /// The thread that waits for this one calls it.
    OtherThreads(Arc<OtherThreads>),
}

#[derive(Default)]
struct OtherThreads {
    done: AtomicU64,
    is_ended: AtomicBool,
}

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// Restores the previous watcher, even after a panic.
struct Restore(Option<Watched>);

impl Drop for Restore {
    fn drop(&mut self) {
        WATCHED.set(self.0.take());
    }
}

/// Runs `work`, and calls `watcher` from time to time when the work calls [`advance`].
pub fn within<T>(watcher: Watcher, work: impl FnOnce() -> T) -> T {
    let watched = Watched::Here { watcher, progress: Progress::default(), last: Instant::now() };
    let _before = Restore(WATCHED.replace(Some(watched)));
    work()
}

/// Records that there are `steps` more to do.
pub fn expect(steps: usize) {
    WATCHED.with_borrow_mut(|watched| {
        if let Some(Watched::Here { progress, .. }) = watched {
            progress.total += steps as u64;
        }
    });
}

/// Records that `steps` more are done. Work that takes longer must call it at least every few milliseconds.
///
/// # Errors
/// The watcher's error, if the work must end.
pub fn advance(steps: usize) -> Result<()> {
    let is_time = WATCHED.with_borrow_mut(|watched| match watched {
        None => Ok(false),
        Some(Watched::OtherThreads(others)) => {
            others.done.fetch_add(steps as u64, Ordering::Relaxed);
            if others.is_ended.load(Ordering::Relaxed) { Err(ended()) } else { Ok(false) }
        }
        Some(Watched::Here { progress, last, .. }) => {
            progress.done += steps as u64;
            let is_time = last.elapsed() >= INTERVAL;
            if is_time {
                *last = Instant::now();
            }
            Ok(is_time)
        }
    })?;
    if is_time { call() } else { Ok(()) }
}

/// Returns the error for work on other threads, whose caller returns its own error.
fn ended() -> Error {
    Error::User("it was canceled".into())
}

/// Calls the watcher, which may itself start watched work.
fn call() -> Result<()> {
    let mut restore = Restore(WATCHED.take());
    match &mut restore.0 {
        Some(Watched::Here { watcher, progress, .. }) => watcher(*progress),
        _ => Ok(()),
    }
}

/// Runs `work` for a caller, on other threads. Each thread wraps its work in [`Others::watch`]; meanwhile, the caller
/// waits and continues to call its watcher.
///
/// # Errors
/// Those of `work`; the watcher's, once `work` has ended.
pub(crate) fn on_other_threads<T: Send>(work: impl FnOnce(&Others) -> Result<T> + Send) -> Result<T> {
    let others = Others(match WATCHED.with_borrow(Option::is_some) {
        true => Some(Arc::default()),
        false => None,
    });
    let Some(shared) = others.0.clone() else { return work(&others) };
    let others = &others;
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        let begun = thread::Builder::new().name("sluice-watched".into()).spawn_scoped(scope, move || {
            let _ = sender.send(work(others));
        });
        begun.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        let mut refused = None;
        loop {
            let outcome = receiver.recv_timeout(INTERVAL / 2);
            let done = shared.done.swap(0, Ordering::Relaxed);
            if refused.is_none()
                && let Err(error) = advance(done as usize)
            {
                shared.is_ended.store(true, Ordering::Relaxed);
                refused = Some(error);
            }
            match (outcome, refused.take()) {
                (Ok(_) | Err(RecvTimeoutError::Disconnected), Some(error)) => return Err(error),
                (Ok(outcome), None) => return outcome,
                // The thread panicked, and the scope will panic too.
                (Err(RecvTimeoutError::Disconnected), None) => return Err(ended()),
                (Err(RecvTimeoutError::Timeout), before) => refused = before,
            }
        }
    })
}

/// Passed by [`on_other_threads`] to other threads.
pub(crate) struct Others(Option<Arc<OtherThreads>>);

impl Others {
    /// Runs `work` on this thread, for the caller that waits for it.
    pub(crate) fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(shared) = &self.0 else { return work() };
        let _before = Restore(WATCHED.replace(Some(Watched::OtherThreads(Arc::clone(shared)))));
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    fn work(steps: usize) -> Result<usize> {
        expect(steps);
        for _ in 0..steps {
            thread::sleep(Duration::from_millis(1));
            advance(1)?;
        }
        Ok(steps)
    }

    #[test]
    fn a_watcher_can_end_the_work() {
        assert_eq!(work(3).unwrap(), 3, "there are no watchers");
        let seen = Rc::new(Cell::new(Progress::default()));
        let watcher = {
            let seen = Rc::clone(&seen);
            Box::new(move |progress: Progress| {
                seen.set(progress);
                // Watched work inside a watcher is independent.
                within(Box::new(|_| Ok(())), || work(2)).map(drop)?;
                if progress.done < 100 { Ok(()) } else { Err(Error::State { reason: "enough".into() }) }
            })
        };
        let error = within(watcher, || work(100_000)).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
        assert_eq!(seen.get().total, 100_000);
        assert!((100..10_000).contains(&seen.get().done));
        assert_eq!(work(1).unwrap(), 1, "there are no watchers any more");
    }

    #[test]
    fn the_waiting_thread_runs_the_watchers() {
        let scanned = || {
            on_other_threads(|others| {
                let other = thread::scope(|scope| scope.spawn(|| others.watch(|| work(100_000))).join().unwrap());
                other.map(|_| ())
            })
        };
        let error = within(Box::new(|_| Err(Error::State { reason: "enough".into() })), scanned).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
        assert_eq!(on_other_threads(|others| others.watch(|| work(2))).unwrap(), 2);
    }
}
