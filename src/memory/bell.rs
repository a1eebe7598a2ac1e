//! [`Bell`] and [`EventBell`]: doorbells beside rings, which cost a system call only when somebody sleeps.
//!
//! # Rationale
//! Who waits announces it, looks for work once more and falls asleep; who has pushed looks whether somebody sleeps, and
//! wakes them. Both write first and read afterwards with a sequentially consistent fence between, so at least one of them
//! sees what the other has written: no wake-up is lost, and nobody spins.
//!
//! Only the sleeper takes its announcement back. A ringer that took it back and was stopped before its system call would
//! silence all other ringers.

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
/// The word that is 1 while somebody sleeps or is about to.
const SLEEPING: usize = 1;

/// Why a wait at a [`Bell`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There is work.
    Work,
    /// There was none in time.
    TimedOut,
    /// A signal came, and there is no work: the caller runs its handlers and waits again.
    Interrupted,
}

/// Why a wait at an [`EventBell`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventWoken {
    /// There is work.
    Work,
    /// The process at this position has ended, and there is no work, so all that it had pushed is done.
    Died(usize),
    /// There was none in time.
    TimedOut,
    /// A signal came, and there is no work: the caller runs its handlers and waits again.
    Interrupted,
    /// Other code of this process has closed the bell's descriptor or that of a process, and there is no work.
    Closed,
}

/// A moment that is computed once, so that waking for nothing does not put it off.
struct Deadline(Option<Instant>);

impl Deadline {
    /// A moment too far away to be counted is never.
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

/// A doorbell in a shared segment for one sleeper, who waits for nothing else. Fresh memory, which is zero, is a bell.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use sluicegate::memory::{Bell, Ring, Segment, Woken};
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
    /// The number of bytes that a bell takes: a cache line.
    pub const BYTES: usize = 64;

    /// The bell at byte `offset` of `segment`, as it lies there.
    ///
    /// # Panics
    /// When `offset` is no multiple of 64, or the bell is not inside the segment and outside of its arena.
    #[must_use]
    pub fn new(segment: Arc<Segment>, offset: usize) -> Self {
        assert!(offset.is_multiple_of(Self::BYTES), "a bell at byte {offset}: a multiple of 64 is needed");
        Self { words: Words::new(segment, offset, 2) }
    }

    /// Wakes the sleeper, if there is one. What was pushed before is seen by it.
    pub fn ring(&self) {
        if is_announced(&self.words) {
            self.words[SEQUENCE].fetch_add(1, Ordering::Release);
            self.words[SEQUENCE].wake();
        }
    }

    /// Sleeps until `has_work` is true. One thread of one process may wait; it wakes when another rings.
    pub fn wait(&self, has_work: impl Fn() -> bool, timeout: Option<Duration>) -> Woken {
        if has_work() {
            return Woken::Work;
        }
        let deadline = Deadline::after(timeout);
        loop {
            // Read before the announcement: a ringer that sees the announcement changes what the futex compares with.
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

/// A doorbell for one sleeper who waits for the end of processes too: many ringers, each with a ring of its own, and their
/// process handles.
///
/// The flag lies in shared memory like a [`Bell`]'s; the wake-up goes through an eventfd, which other processes inherit or
/// are sent.
pub struct EventBell {
    words: Words<Futex>,
    event: Event,
}

impl EventBell {
    /// The number of bytes that a bell takes: a cache line.
    pub const BYTES: usize = 64;

    /// The bell at byte `offset` of `segment`, with an eventfd of its own.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] when the operating system gives no eventfd.
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

    /// The bell that another process has made there, with a duplicate of its [`file`](AsFd::as_fd).
    ///
    /// # Panics
    /// As [`Bell::new`].
    #[must_use]
    pub fn attach(segment: Arc<Segment>, offset: usize, file: OwnedFd) -> Self {
        Self { words: Bell::new(segment, offset).words, event: Event::from_file(file) }
    }

    /// Wakes the sleeper, if there is one. What was pushed before is seen by it.
    ///
    /// # Errors
    /// [`Error::Closed`] when other code of this process has closed the bell's descriptor.
    pub fn ring(&self) -> Result<()> {
        if !is_announced(&self.words) || self.event.set() { Ok(()) } else { Err(Error::Closed) }
    }

    /// Sleeps until `has_work` is true or one of `processes` (pidfds) has ended. One thread of one process may wait.
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
                // After the look at the processes: what one has pushed before it ended comes first.
                _ if has_work() => return EventWoken::Work,
                Some(Polled::Ready(Some(process))) => return EventWoken::Died(process),
                Some(Polled::TimedOut) => return EventWoken::TimedOut,
                Some(Polled::Interrupted) => return EventWoken::Interrupted,
                Some(Polled::Closed) => return EventWoken::Closed,
                // Another file under the bell's number may be readable for ever.
                Some(Polled::Ready(None)) if deadline.is_over() => return EventWoken::TimedOut,
                // An old ring for work that is done already.
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

/// The ringer's half: whether somebody sleeps who may not have seen what was pushed before.
fn is_announced(words: &Words<Futex>) -> bool {
    fence(Ordering::SeqCst);
    words[SLEEPING].load(Ordering::Acquire) != 0
}

/// The sleeper's half: runs `sleep` where a ringer can know of it, unless there is work by then.
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

    /// A lost wake-up leaves the sleeper asleep for ever, which the model reports as a deadlock.
    #[test]
    fn loom_a_bell_wakes_for_everything_that_comes() {
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
    fn loom_an_event_bell_wakes_for_everything_that_comes() {
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
