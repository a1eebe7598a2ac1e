//! [`Event`]: an event that a thread can wait for together with the exit of processes. Under `cfg(loom)` it is a model.

#[cfg(loom)]
pub(super) use model::Event;
#[cfg(not(loom))]
pub(super) use system::Event;

/// Why a wait for an event ended.
#[cfg_attr(loom, expect(dead_code, reason = "a model knows neither timeouts, nor signals, nor descriptors"))]
pub(super) enum Polled {
    /// The event was set (and is now cleared), or the process at this position has ended, or both.
    Ready(Option<usize>),
    TimedOut,
    Interrupted,
    /// Other code has closed one of the descriptors.
    Closed,
}

#[cfg(not(loom))]
mod system {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::time::Duration;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::io::{Errno, Result, read, write};
    use rustix::process::{Resource, getrlimit};

    use super::Polled;

    /// An eventfd that never blocks.
    pub(in crate::memory) struct Event(OwnedFd);

    impl Event {
        pub(in crate::memory) fn new() -> Result<Self> {
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Self)
        }

        pub(in crate::memory) fn from_file(file: OwnedFd) -> Self {
            Self(file)
        }

        pub(in crate::memory) fn file(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        /// Sets the event; returns false if other code has closed its descriptor.
        pub(in crate::memory) fn set(&self) -> bool {
            // A write to a full counter fails too, but then the event is already set.
            write(&self.0, &1_u64.to_ne_bytes()) != Err(Errno::BADF)
        }

        /// Waits until the event is set or one of `processes` has ended.
        pub(in crate::memory) fn wait(&self, processes: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Polled {
            let timeout: Option<Timespec> = timeout.and_then(|timeout| timeout.try_into().ok());
            let mut files = Vec::with_capacity(1 + processes.len());
            files.push(PollFd::new(&self.0, PollFlags::IN));
            files.extend(processes.iter().map(|process| PollFd::new(process, PollFlags::IN)));
            let mut polled = poll(&mut files, timeout.as_ref());
            if polled == Err(Errno::INVAL) {
                // There are more descriptors than the (lowered) limit on open files: watch as many processes as it
                // allows.
                let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
                files.truncate(limit.unwrap_or(usize::MAX).max(1));
                polled = poll(&mut files, timeout.as_ref());
            }
            match polled {
                Ok(0) => Polled::TimedOut,
                Ok(_) if files.iter().any(|file| file.revents().contains(PollFlags::NVAL)) => Polled::Closed,
                Ok(_) => {
                    if !files[0].revents().is_empty() {
                        let _ = read(&self.0, &mut [0_u8; 8]);
                    }
                    Polled::Ready(files[1..].iter().position(|file| !file.revents().is_empty()))
                }
                Err(Errno::INTR) => Polled::Interrupted,
                // The kernel has no memory for its list of files. The caller checks for work and calls again.
                Err(_) => Polled::Interrupted,
            }
        }
    }
}

#[cfg(loom)]
mod model {
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};
    use rustix::io::Result;

    use super::Polled;

    /// An eventfd without processes or timeouts.
    pub(in crate::memory) struct Event {
        is_set: Mutex<bool>,
        sleepers: Condvar,
    }

    impl Event {
        pub(in crate::memory) fn new() -> Result<Self> {
            Ok(Self { is_set: Mutex::new(false), sleepers: Condvar::new() })
        }

        pub(in crate::memory) fn from_file(_file: OwnedFd) -> Self {
            unimplemented!("a model has no file")
        }

        pub(in crate::memory) fn file(&self) -> BorrowedFd<'_> {
            unimplemented!("a model has no file")
        }

        pub(in crate::memory) fn set(&self) -> bool {
            *self.is_set.lock().expect("no thread of a model panics") = true;
            self.sleepers.notify_all();
            true
        }

        pub(in crate::memory) fn wait(&self, _processes: &[BorrowedFd<'_>], _timeout: Option<Duration>) -> Polled {
            let mut is_set = self.is_set.lock().expect("no thread of a model panics");
            while !*is_set {
                is_set = self.sleepers.wait(is_set).expect("no thread of a model panics");
            }
            *is_set = false;
            Polled::Ready(None)
        }
    }
}
