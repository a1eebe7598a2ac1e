//! [`StopSignal`]: tells a thread that waits for bytes that they are no longer wanted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};

use crate::{Error, Result};

/// Ends reading, once and for all, whatever the reader waits for. Clones are one signal.
#[derive(Debug, Clone)]
pub struct StopSignal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_set: AtomicBool,
    /// Readable from the moment on that the signal is set: it wakes who waits for a file.
    event: OwnedFd,
    /// Those that are set with it.
    children: Mutex<Vec<Weak<Inner>>>,
}

impl StopSignal {
    /// A signal that is not set.
    ///
    /// # Errors
    /// [`Error::Threads`] when the process has no descriptor left.
    pub fn new() -> Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        Ok(Self(Arc::new(Inner { is_set: AtomicBool::new(false), event, children: Mutex::default() })))
    }

    /// A signal that is set with this one, and can be set without it: for a reader that ends before its caller does.
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
        // Who sets this one sets first, and then asks for the children.
        if self.is_set() {
            child.set();
        }
        drop(children);
        Ok(child)
    }

    /// Sets it.
    pub fn set(&self) {
        self.0.is_set.store(true, Ordering::Release);
        // The only refusal is of a counter that is full, and then it is readable.
        let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
        let children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.iter().filter_map(Weak::upgrade).for_each(|child| Self(child).set());
    }

    /// True if it was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Readable once it is set.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
