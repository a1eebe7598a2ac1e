//! A watch on another process: this one ends with it.

use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};

use crate::{Error, Result};

/// Ends this process as soon as another one ends, whatever this one is doing then: a worker process must not outlive
/// its consumer, not even while the user's code sleeps in it or holds the GIL.
///
/// `process` is the other one's descriptor (pidfd).
///
/// # Errors
/// [`Error::Threads`] when the thread that watches can't be started.
pub fn end_with(process: OwnedFd) -> Result<()> {
    let watch = move || {
        loop {
            let mut watched = [PollFd::new(&process, PollFlags::IN)];
            match poll(&mut watched, None) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                // Without a watch the worker must not live: it would wait for its consumer for ever.
                Err(_) => break,
            }
        }
        // Nobody is there who could care how it ends. Destructors are not run: the user's code may hold any lock.
        let _ = kill_process(getpid(), Signal::KILL);
    };
    // Not one of the pool's threads: it fetches nothing, and never ends.
    let named = thread::Builder::new().name("sluicegate-watch".into()).stack_size(64 << 10);
    let started = named.spawn(watch);
    started.map(drop).map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })
}
