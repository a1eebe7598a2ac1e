//! [`StopSignal`]: tells a thread that waits for bytes that they are no longer needed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};

use crate::{Error, Result};

/// Ends reading for good, even while the reader waits for data. Clones share the same signal.
#[derive(Debug, Clone)]
pub struct StopSignal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_set: AtomicBool,
    /// Readable once the signal is set, which wakes a thread that polls it together with a file.
    event: OwnedFd,
    /// Signals that are set together with this one.
    children: Mutex<Vec<Weak<Inner>>>,
}

impl StopSignal {
    /// A signal that is not set.
    ///
    /// # Errors
    /// [`Error::Threads`] if the process has no file descriptors left.
    pub fn new() -> Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        Ok(Self(Arc::new(Inner { is_set: AtomicBool::new(false), event, children: Mutex::default() })))
    }

    /// Returns a signal that is set with this one, or alone: for a reader that ends before its caller does.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Example
    /// ```
    /// use sluicegate::StopSignal;
    ///
    /// let all = StopSignal::new()?;
    /// let (one, other) = (all.child()?, all.child()?);
    /// one.set();
    /// assert_eq!((all.is_set(), other.is_set()), (false, false));
    /// all.set();
    /// assert!(other.is_set());
    /// # Ok::<(), sluicegate::Error>(())
    /// ```
    pub fn child(&self) -> Result<Self> {
        let child = Self::new()?;
        let mut children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child.0));
        // `set` stores the flag before it takes the lock: it either finds this child or has set the flag by now.
        if self.is_set() {
            child.set();
        }
        drop(children);
        Ok(child)
    }

    /// Sets the signal.
    pub fn set(&self) {
        self.0.is_set.store(true, Ordering::Release);
        // The write fails only if the counter is full, and then the descriptor is readable anyway.
        let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
        let children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.iter().filter_map(Weak::upgrade).for_each(|child| Self(child).set());
    }

    /// True if the signal was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// A file descriptor that becomes readable once the signal is set.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
