//! The fork generation, and values that every process creates for itself.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Number of forks between the process that loaded this crate and this one. Only the fork handler writes it, in the
/// child, while the child has one thread.
static GENERATION: AtomicU64 = AtomicU64::new(0);

static REGISTER: Once = Once::new();

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> std::ffi::c_int;
}

/// Runs in a forked child before anything else, where only an atomic addition is allowed.
unsafe extern "C" fn enter_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Returns the fork generation of this process: threads and locks of another generation must not be used.
pub fn generation() -> u64 {
    if cfg!(miri) {
        return 0; // it cannot fork
    }
    REGISTER.call_once(|| {
        // SAFETY: the handler is a function of this library, which is never unloaded, and it touches one atomic only.
        let refused = unsafe { pthread_atfork(None, None, Some(enter_child)) };
        assert_eq!(refused, 0, "no memory to register a fork handler");
    });
    GENERATION.load(Ordering::Relaxed)
}

/// A value that a forked child must not inherit (it holds threads or locks): each process creates its own on first use.
///
/// The child leaks its parent's value: dropping it could wait for a lock whose holder was not forked.
pub(crate) struct PerProcess<T> {
    /// Null, or a `Box` of the generation and its value. Replaced only when the generation has changed.
    current: AtomicPtr<(u64, T)>,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Returns a cell without a value.
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns this process's value, created by `make` on first use. Two threads may both create one; only one of them
    /// is kept.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        let generation = generation();
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: a pointer found here came from `Box::into_raw` below and is freed only by `drop`, with `&mut self`.
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
            // SAFETY: the pointer came from `Box::into_raw`, is not null, and no other code can free it.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::{Lease, Slab};
    use super::*;

    unsafe extern "C" {
        fn fork() -> c_int;
        fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
        fn kill(process: c_int, signal: c_int) -> c_int;
        fn _exit(status: c_int) -> !;
    }

    /// Runs `body` in a forked child, which must exit successfully and soon.
    fn in_child(body: impl FnOnce()) {
        // SAFETY: the child runs `body` and leaves by `_exit`, so nothing of the parent's is run or dropped twice.
        let child = unsafe { fork() };
        assert!(child >= 0, "no process to be had");
        if child == 0 {
            let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
            // SAFETY: ends the process, and returns nowhere.
            unsafe { _exit(c_int::from(failed)) };
        }
        let (begin, mut status) = (Instant::now(), 0);
        // SAFETY: the child is ours, and `status` outlives the call; 1 is WNOHANG.
        while unsafe { waitpid(child, &raw mut status, 1) } == 0 {
            if begin.elapsed() > Duration::from_secs(20) {
                // SAFETY: the child is ours and was not waited for, so its number is its own.
                unsafe { kill(child, 9) };
                panic!("the child hangs");
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "the child failed");
    }

    #[test]
    fn each_process_creates_its_own_value() {
        let value = PerProcess::new();
        let first = generation();
        assert_eq!(*value.get_or_make(|| 1), 1);
        in_child(|| {
            assert_eq!(generation(), first + 1);
            assert_eq!(*value.get_or_make(|| 2), 2);
            in_child(|| assert_eq!((generation(), *value.get_or_make(|| 3)), (first + 2, 3)));
            assert_eq!(*value.get_or_make(|| 4), 2);
        });
        assert_eq!((generation(), *value.get_or_make(|| 5)), (first, 1));
    }

    /// A thread takes and drops slots continuously, so some forks find the lock held.
    #[test]
    fn a_forked_child_drops_inherited_leases_even_if_the_lock_is_held() {
        let (slab, stop) = (Slab::new(2), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut held: Vec<Lease> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    held.push(slab.lease(100_000).unwrap());
                    if held.len() > 30 {
                        held.clear();
                    }
                }
            });
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                for round in 0..100 {
                    let mut inherited: Vec<Lease> = (0..3).map(|_| slab.lease(100_000).unwrap()).collect();
                    inherited.iter_mut().for_each(|lease| lease.bytes_mut().fill(round));
                    in_child(|| {
                        let mut own = slab.lease(100_000).unwrap();
                        own.bytes_mut().fill(255);
                        assert!(inherited.iter().all(|lease| lease.bytes().iter().all(|byte| *byte == round)));
                        drop(std::mem::take(&mut inherited));
                        assert_ne!(slab.lease(100_000).unwrap().address(), own.address());
                        assert!(slab.mapped_bytes() > 0);
                    });
                    assert!(inherited.iter().all(|lease| lease.bytes().iter().all(|byte| *byte == round)));
                }
            }));
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap();
        });
    }

    #[test]
    fn a_child_that_drops_the_slab_leaves_the_parents_intact() {
        let slab = Slab::new(2);
        let lease = slab.lease(100).unwrap();
        let (mut slab, mut lease) = (Some(slab), Some(lease));
        in_child(|| drop((slab.take(), lease.take())));
        assert_eq!(slab.as_ref().unwrap().mapped_bytes(), 4096);
        drop((slab.take(), lease.take()));
    }
}
