//! The fork generation, and values that every process makes for itself.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// How many forks lie between the process that loaded this crate and this one. Written only by the fork handler,
/// in the child, while it has one thread.
static GENERATION: AtomicU64 = AtomicU64::new(0);

static REGISTER: Once = Once::new();

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> std::ffi::c_int;
}

/// Runs in a forked child before anything else: an atomic addition is all that is allowed there.
unsafe extern "C" fn enter_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The fork generation of this process: threads and locks of another generation must not be used.
pub(crate) fn generation() -> u64 {
    REGISTER.call_once(|| {
        // SAFETY: the handler is a function of this library, which is never unloaded, and it touches one atomic only.
        let refused = unsafe { pthread_atfork(None, None, Some(enter_child)) };
        assert_eq!(refused, 0, "no memory to register a fork handler");
    });
    GENERATION.load(Ordering::Relaxed)
}

/// A value that a forked child must not inherit (it holds threads or locks): each process gets its own, made on first use.
///
/// The value of a parent is leaked in the child: dropping it could wait for a lock whose holder was not forked.
pub(crate) struct PerProcess<T> {
    /// Null, or a `Box` of the generation and its value. Only ever replaced when the generation has changed.
    current: AtomicPtr<(u64, T)>,
}

impl<T: Send + Sync> PerProcess<T> {
    /// A value not made yet.
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()) }
    }

    /// This process's value, made by `make` on first use. Two threads may both make one; one of them is kept.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        let generation = generation();
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: a pointer found here came from `Box::into_raw` below and is freed only by `drop`, which has `&mut self`.
        if let Some((of, value)) = unsafe { current.as_ref() }
            && *of == generation
        {
            return value;
        }
        let fresh = Box::into_raw(Box::new((generation, make())));
        match self.current.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `fresh` was published just now and lives until `drop`.
            Ok(_) => unsafe { &(*fresh).1 },
            Err(other) => {
                // SAFETY: `fresh` was never published, so this thread owns it alone.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: the exchange failed because another thread of this process published `other`.
                unsafe { &(*other).1 }
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        // SAFETY: as in `get_or_make`; `&mut self` shows that no reference handed out is alive.
        if unsafe { current.as_ref() }.is_some_and(|(of, _)| *of == generation()) {
            // SAFETY: the pointer came from `Box::into_raw`, is not null, and nobody else can free it.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}
