//! Watches another process, and ends this one when the other ends.

use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};

use crate::{Error, Result};

/// Ends this process as soon as another one ends, whatever this one is doing: a worker process must not outlive its
/// consumer, even while user code sleeps in it or holds the GIL.
///
/// `process` is the other process's descriptor (pidfd).
///
/// # Errors
/// [`Error::Threads`] if the watching thread cannot be started.
pub fn end_with(process: OwnedFd) -> Result<()> {
    let watch = move || {
        loop {
            let mut watched = [PollFd::new(&process, PollFlags::IN)];
            match poll(&mut watched, None) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                // The worker must not continue without the watch: it would wait for its consumer forever.
                Err(_) => break,
            }
        }
        // The consumer is gone, so the exit status does not matter. Destructors are not run, because user code may hold
        // any lock.
        let _ = kill_process(getpid(), Signal::KILL);
    };
    // Not one of the pool's threads: it fetches nothing, and never ends.
    let named = thread::Builder::new().name("sluicegate-watch".into()).stack_size(64 << 10);
    let started = named.spawn(watch);
    started.map(drop).map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })
}
