//! Long work reports how far it has come, and is told when to end.
//!
//! The caller of long work may [`watch`](within) it: it is then called back a few times a second on its own thread, and may end
//! the work with an error. Work that nobody watches pays for a look at a thread-local.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The time between two calls of a watcher.
const INTERVAL: Duration = Duration::from_millis(50);

/// How far work has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The steps that are done.
    pub(crate) done: u64,
    /// The steps there are; 0 if that is not known.
    pub(crate) total: u64,
}

/// Called while work goes on. Its error ends the work.
pub(crate) type Watcher = Box<dyn FnMut(Progress) -> Result<()>>;

enum Watched {
    /// This thread calls the watcher.
    #[cfg_attr(not(any(feature = "python", test)), expect(dead_code, reason = "only the binding watches"))]
    Here { watcher: Watcher, progress: Progress, last: Instant },
    /// The thread that waits for this one does.
    Elsewhere(Arc<Elsewhere>),
}

#[derive(Default)]
struct Elsewhere {
    done: AtomicU64,
    is_ended: AtomicBool,
}

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// Puts what was there before back, even after a panic.
struct Restore(Option<Watched>);

impl Drop for Restore {
    fn drop(&mut self) {
        WATCHED.set(self.0.take());
    }
}

/// Runs `work` and calls `watcher` from time to time, whenever the work [`advance`]s.
#[cfg(any(feature = "python", test))]
pub(crate) fn within<T>(watcher: Watcher, work: impl FnOnce() -> T) -> T {
    let watched = Watched::Here { watcher, progress: Progress::default(), last: Instant::now() };
    let _before = Restore(WATCHED.replace(Some(watched)));
    work()
}

/// Notes that there are `steps` more to be done.
pub(crate) fn expect(steps: usize) {
    WATCHED.with_borrow_mut(|watched| {
        if let Some(Watched::Here { progress, .. }) = watched {
            progress.total += steps as u64;
        }
    });
}

/// Notes that `steps` more are done. To be called at least every few milliseconds by work that takes longer.
///
/// # Errors
/// That of the watcher, if the work is to end.
pub(crate) fn advance(steps: usize) -> Result<()> {
    let is_time = WATCHED.with_borrow_mut(|watched| match watched {
        None => Ok(false),
        Some(Watched::Elsewhere(elsewhere)) => {
            elsewhere.done.fetch_add(steps as u64, Ordering::Relaxed);
            if elsewhere.is_ended.load(Ordering::Relaxed) { Err(ended()) } else { Ok(false) }
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

/// The error of work on other threads, whose caller has an error of its own.
fn ended() -> Error {
    Error::User("it is not wanted any more".into())
}

/// Calls the watcher, which may itself begin work that is watched.
fn call() -> Result<()> {
    let mut restore = Restore(WATCHED.take());
    match &mut restore.0 {
        Some(Watched::Here { watcher, progress, .. }) => watcher(*progress),
        _ => Ok(()),
    }
}

/// Runs `work` for a caller on other threads: each of them is watched within the function that `work` is given. The caller
/// waits, and goes on calling its watcher.
///
/// # Errors
/// Those of `work`; that of the watcher, once `work` has ended.
pub(crate) fn elsewhere<T: Send>(work: impl FnOnce(&Others) -> Result<T> + Send) -> Result<T> {
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
                // It panicked: the scope does so too.
                (Err(RecvTimeoutError::Disconnected), None) => return Err(ended()),
                (Err(RecvTimeoutError::Timeout), before) => refused = before,
            }
        }
    })
}

/// What [`elsewhere`] gives to threads.
pub(crate) struct Others(Option<Arc<Elsewhere>>);

impl Others {
    /// Runs `work` on this thread, for the caller that waits for it.
    pub(crate) fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(shared) = &self.0 else { return work() };
        let _before = Restore(WATCHED.replace(Some(Watched::Elsewhere(Arc::clone(shared)))));
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
    fn a_watcher_is_called_and_ends_the_work() {
        assert_eq!(work(3).unwrap(), 3, "nobody watches");
        let seen = Rc::new(Cell::new(Progress::default()));
        let watcher = {
            let seen = Rc::clone(&seen);
            Box::new(move |progress: Progress| {
                seen.set(progress);
                // Watched work within a watcher is its own.
                within(Box::new(|_| Ok(())), || work(2)).map(drop)?;
                if progress.done < 100 { Ok(()) } else { Err(Error::State { reason: "enough".into() }) }
            })
        };
        let error = within(watcher, || work(100_000)).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
        assert_eq!(seen.get().total, 100_000);
        assert!((100..10_000).contains(&seen.get().done));
        assert_eq!(work(1).unwrap(), 1, "nobody watches any more");
    }

    #[test]
    fn threads_are_watched_by_the_one_that_waits_for_them() {
        let scanned = || {
            elsewhere(|others| {
                let other = thread::scope(|scope| scope.spawn(|| others.watch(|| work(100_000))).join().unwrap());
                other.map(|_| ())
            })
        };
        let error = within(Box::new(|_| Err(Error::State { reason: "enough".into() })), scanned).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
        assert_eq!(elsewhere(|others| others.watch(|| work(2))).unwrap(), 2);
    }
}
