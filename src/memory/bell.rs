//! [`Bell`] and [`EventBell`]: doorbells for rings, which cost a system call only when the consumer sleeps.
//!
//! # Rationale
//! A waiter announces that it is about to sleep, checks for work once more, and then sleeps. A ringer pushes, then
//! checks for an announcement and wakes the sleeper. Both write first and read afterwards, with a sequentially
//! consistent fence in between, so at least one of them sees the other's write: no wake-up is lost, and nothing spins.
//!
//! Only the sleeper withdraws its announcement. If a ringer withdrew it and was stopped before its system call, all
//! other ringers would stay silent.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Segment;
use super::event::{Event, Polled};
use super::sync::{Futex, Ordering, Words, fence};
use crate::{Error, Result};

/// The word that counts how often the sleeper was woken.
const SEQUENCE: usize = 0;
/// The word that is 1 while the waiter sleeps or is about to.
const SLEEPING: usize = 1;

/// Why a wait at a [`Bell`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is work.
    Work,
    /// The timeout elapsed without work.
    TimedOut,
    /// A signal arrived, and there is no work: the caller runs its signal handlers and waits again.
    Interrupted,
}

/// Why a wait at an [`EventBell`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventWoken {
    /// There is work.
    Work,
    /// The process at this position has ended and there is no work, so everything that it pushed is processed.
    Died(usize),
    /// The timeout elapsed without work.
    TimedOut,
    /// A signal arrived, and there is no work: the caller runs its signal handlers and waits again.
    Interrupted,
    /// Other code in this process has closed the bell's descriptor or a process's descriptor, and there is no work.
    Closed,
}

/// A point in time that is computed once, so that spurious wake-ups do not postpone it.
struct Deadline(Option<Instant>);

impl Deadline {
    /// A deadline too far in the future to represent means "never".
    fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    fn is_over(&self) -> bool {
        self.0.is_some_and(|deadline| deadline <= Instant::now())
    }

    fn remaining(&self) -> Option<Duration> {
        self.0.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// A doorbell in a shared segment for one sleeper that waits for nothing else. Zeroed memory is a valid bell.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use sluicegate::internal::{Bell, Ring, Segment, Woken};
/// let segment = Arc::new(Segment::shared(Bell::BYTES + Ring::bytes(4)).unwrap().0);
/// let (bell, ring) = (Bell::new(Arc::clone(&segment), 0), Ring::new(segment, Bell::BYTES, 4));
/// let soon = Some(Duration::from_millis(1));
/// assert_eq!(bell.wait(|| !ring.is_empty(), soon), Woken::TimedOut);
/// assert!(ring.push([1; 8]));
/// bell.ring(); // from any process that has the segment
/// assert_eq!(bell.wait(|| !ring.is_empty(), soon), Woken::Work);
/// ```
pub struct Bell {
    words: Words<Futex>,
}

impl Bell {
    /// Size of a bell in bytes: one cache line.
    pub const BYTES: usize = 64;

    /// Returns the bell at byte `offset` of `segment`, keeping its current state.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 64, or the bell is not inside the segment and outside its arena.
    #[must_use]
    pub fn new(segment: Arc<Segment>, offset: usize) -> Self {
        assert!(offset.is_multiple_of(Self::BYTES), "a bell at byte {offset}: a multiple of 64 is needed");
        Self { words: Words::new(segment, offset, 2) }
    }

    /// Wakes the sleeper, if there is one. The sleeper sees everything that was pushed before.
    pub fn ring(&self) {
        if is_announced(&self.words) {
            self.words[SEQUENCE].fetch_add(1, Ordering::Release);
            self.words[SEQUENCE].wake();
        }
    }

    /// Sleeps until `has_work` is true. Only one thread of one process may wait; it wakes when another thread or
    /// process rings.
    pub fn wait(&self, has_work: impl Fn() -> bool, timeout: Option<Duration>) -> Woken {
        if has_work() {
            return Woken::Work;
        }
        let deadline = Deadline::after(timeout);
        loop {
            // Read this before the announcement: a ringer that sees the announcement changes the value that the futex
            // compares.
            let seen = self.words[SEQUENCE].load(Ordering::Acquire);
            let slept = announced(&self.words, &has_work, || self.words[SEQUENCE].wait(seen, deadline.remaining()));
            match slept {
                _ if has_work() => return Woken::Work,
                Some(Err(Errno::TIMEDOUT)) => return Woken::TimedOut,
                Some(Err(_)) => return Woken::Interrupted,
                Some(Ok(())) | None => {}
            }
        }
    }
}

/// A doorbell for one sleeper that also waits for processes to end: it has many ringers, each with its own ring, and
/// their process handles.
///
/// The flag is in shared memory like a [`Bell`]'s. The wake-up goes through an eventfd, which other processes inherit
/// or receive.
pub struct EventBell {
    words: Words<Futex>,
    event: Event,
}

impl EventBell {
    /// Size of a bell in bytes: one cache line.
    pub const BYTES: usize = 64;

    /// Returns the bell at byte `offset` of `segment`, with a new eventfd.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] if the operating system cannot create an eventfd.
    ///
    /// # Panics
    /// As [`Bell::new`].
    pub fn new(segment: Arc<Segment>, offset: usize) -> Result<Self> {
        let event = Event::new().map_err(|errno| Error::SharedMemory {
            operation: "an eventfd",
            bytes: Self::BYTES,
            limit: "ulimit -n",
            source: errno.into(),
        })?;
        Ok(Self { words: Bell::new(segment, offset).words, event })
    }

    /// Returns the bell that another process created at `offset`, using a duplicate of its [`file`](AsFd::as_fd).
    ///
    /// # Panics
    /// As [`Bell::new`].
    #[must_use]
    pub fn attach(segment: Arc<Segment>, offset: usize, file: OwnedFd) -> Self {
        Self { words: Bell::new(segment, offset).words, event: Event::from_file(file) }
    }

    /// Wakes the sleeper, if there is one. The sleeper sees everything that was pushed before.
    ///
    /// # Errors
    /// [`Error::Closed`] if other code in this process has closed the bell's descriptor.
    pub fn ring(&self) -> Result<()> {
        if !is_announced(&self.words) || self.event.set() { Ok(()) } else { Err(Error::Closed) }
    }

    /// Sleeps until `has_work` is true or one of `processes` (pidfds) has ended. Only one thread of one process may
    /// wait.
    pub fn wait(
        &self,
        has_work: impl Fn() -> bool,
        processes: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> EventWoken {
        if has_work() {
            return EventWoken::Work;
        }
        let deadline = Deadline::after(timeout);
        loop {
            let slept = announced(&self.words, &has_work, || self.event.wait(processes, deadline.remaining()));
            match slept {
                // Checked after the processes: everything that a process pushed before it ended must be returned first.
                _ if has_work() => return EventWoken::Work,
                Some(Polled::Ready(Some(process))) => return EventWoken::Died(process),
                Some(Polled::TimedOut) => return EventWoken::TimedOut,
                Some(Polled::Interrupted) => return EventWoken::Interrupted,
                Some(Polled::Closed) => return EventWoken::Closed,
                // If the bell's descriptor number was reused, the file that now has it may stay readable forever.
                Some(Polled::Ready(None)) if deadline.is_over() => return EventWoken::TimedOut,
                // A wake-up left over from work that is already done.
                Some(Polled::Ready(None)) | None => {}
            }
        }
    }
}

impl AsFd for EventBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.file()
    }
}

/// The ringer's half: true if a sleeper is announced that may not have seen the last push.
fn is_announced(words: &Words<Futex>) -> bool {
    fence(Ordering::SeqCst);
    words[SLEEPING].load(Ordering::Acquire) != 0
}

/// The sleeper's half: announces the sleep to ringers, and runs `sleep` unless work has arrived by then.
fn announced<T>(words: &Words<Futex>, has_work: impl Fn() -> bool, sleep: impl FnOnce() -> T) -> Option<T> {
    words[SLEEPING].store(1, Ordering::Release);
    fence(Ordering::SeqCst);
    let slept = (!has_work()).then(sleep);
    words[SLEEPING].store(0, Ordering::Release);
    slept
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    use super::super::sync::model_check;
    use super::*;

    fn segment() -> Arc<Segment> {
        Arc::new(Segment::anonymous(Bell::BYTES).unwrap())
    }

    /// A lost wake-up leaves the sleeper asleep forever, which the model reports as a deadlock.
    #[test]
    fn loom_a_bell_misses_no_wake_up() {
        model_check(|| {
            let bell = Arc::new(Bell::new(segment(), 0));
            let work: Arc<[AtomicBool; 2]> = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let (ringer, made) = (Arc::clone(&bell), Arc::clone(&work));
            let ringing = thread::spawn(move || {
                for work in made.iter() {
                    work.store(true, Ordering::Relaxed);
                    ringer.ring();
                }
            });
            for work in work.iter() {
                assert_eq!(bell.wait(|| work.load(Ordering::Relaxed), None), Woken::Work);
            }
            ringing.join().unwrap();
        });
    }

    #[test]
    fn loom_an_event_bell_misses_no_wake_up() {
        model_check(|| {
            let bell = Arc::new(EventBell::new(segment(), 0).unwrap());
            let work: Arc<[AtomicBool; 2]> = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let (ringer, made) = (Arc::clone(&bell), Arc::clone(&work));
            let ringing = thread::spawn(move || {
                for work in made.iter() {
                    work.store(true, Ordering::Relaxed);
                    ringer.ring().unwrap();
                }
            });
            for work in work.iter() {
                assert_eq!(bell.wait(|| work.load(Ordering::Relaxed), &[], None), EventWoken::Work);
            }
            ringing.join().unwrap();
        });
    }

    #[test]
    fn loom_an_event_bell_has_many_ringers() {
        model_check(|| {
            let bell = Arc::new(EventBell::new(segment(), 0).unwrap());
            let work: Arc<[AtomicBool; 2]> = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let ringing: Vec<_> = (0..2)
                .map(|ringer| {
                    let (bell, work) = (Arc::clone(&bell), Arc::clone(&work));
                    thread::spawn(move || {
                        work[ringer].store(true, Ordering::Relaxed);
                        bell.ring().unwrap();
                    })
                })
                .collect();
            for work in work.iter() {
                assert_eq!(bell.wait(|| work.load(Ordering::Relaxed), &[], None), EventWoken::Work);
            }
            ringing.into_iter().for_each(|ringing| ringing.join().unwrap());
        });
    }
}
