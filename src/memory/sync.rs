//! Words of shared memory: atomics, and the futex that waits for one of them. Under `cfg(loom)` both are models, so the
//! real ring and bells are checked.

use std::ops::Index;
use std::sync::Arc;

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(super) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::{Mutex, MutexGuard};

use super::Segment;

#[cfg(loom)]
pub(super) use model::Futex;
#[cfg(not(loom))]
pub(super) use system::Futex;

/// Runs `body` in every interleaving of its threads with up to three preemptions: allowing more takes minutes and finds
/// nothing more.
#[cfg(test)]
#[cfg(loom)]
pub(super) fn model_check(body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// A type that may be in memory that another process writes to at any time.
///
/// # Safety
/// Every bit pattern is a valid value, and every access through a shared reference is atomic.
pub(super) unsafe trait Word {
    /// Returns the value of untouched memory.
    #[cfg(loom)]
    fn zero() -> Self;
}

// SAFETY: an atomic integer.
unsafe impl Word for AtomicU64 {
    #[cfg(loom)]
    fn zero() -> Self {
        Self::new(0)
    }
}

// SAFETY: an atomic integer in a transparent wrapper.
unsafe impl Word for Futex {
    #[cfg(loom)]
    fn zero() -> Self {
        Self::new()
    }
}

/// A sequence of words in a segment that may be shared with other processes. Only words may be in that range.
pub(super) struct Words<W> {
    #[cfg(loom)]
    modelled: Box<[W]>,
    #[cfg(not(loom))]
    start: std::ptr::NonNull<W>,
    count: usize,
    _segment: Arc<Segment>,
}

// SAFETY: the words are atomics, which any thread may use, and the segment keeps them mapped.
unsafe impl<W: Word> Send for Words<W> {}
// SAFETY: as above.
unsafe impl<W: Word> Sync for Words<W> {}

impl<W: Word> Words<W> {
    /// Returns the `count` words at byte `offset` of `segment`.
    ///
    /// # Panics
    /// If they do not fit there, or overlap the segment's arena.
    pub(super) fn new(segment: Arc<Segment>, offset: usize, count: usize) -> Self {
        let end = count.checked_mul(size_of::<u64>()).and_then(|bytes| bytes.checked_add(offset));
        let end = end.expect("more words than an address can count");
        segment.claim_words(offset..end);
        #[cfg(not(loom))]
        let start = segment.at(offset).cast::<W>();
        #[cfg(not(loom))]
        assert!(start.is_aligned(), "words at byte {offset} are not aligned");
        Self {
            #[cfg(loom)]
            modelled: (0..count).map(|_| W::zero()).collect(),
            #[cfg(not(loom))]
            start,
            count,
            _segment: segment,
        }
    }
}

impl<W: Word> Index<usize> for Words<W> {
    type Output = W;

    fn index(&self, index: usize) -> &W {
        assert!(index < self.count, "word {index} of {}", self.count);
        #[cfg(loom)]
        return &self.modelled[index];
        #[cfg(not(loom))]
        // SAFETY: `new` has checked that the words are in mapped, writable memory. All bits that another process may
        // write there are a value of `W`. The only Rust references to this range are to atomics, because leases come
        // from an arena, and arenas do not overlap words.
        unsafe {
            self.start.add(index).as_ref()
        }
    }
}

#[cfg(not(loom))]
mod system {
    use std::time::Duration;

    use rustix::io::{Errno, Result};
    use rustix::thread::futex;

    use super::{AtomicU32, Ordering};

    /// A word that a thread can sleep on. Any process that maps it can wake the thread.
    #[repr(transparent)]
    pub(in crate::memory) struct Futex(AtomicU32);

    impl Futex {
        pub(in crate::memory) fn load(&self, ordering: Ordering) -> u32 {
            self.0.load(ordering)
        }

        pub(in crate::memory) fn store(&self, value: u32, ordering: Ordering) {
            self.0.store(value, ordering);
        }

        pub(in crate::memory) fn fetch_add(&self, value: u32, ordering: Ordering) -> u32 {
            self.0.fetch_add(value, ordering)
        }

        /// Sleeps while the word is `expected`. Spurious wake-ups are possible.
        pub(in crate::memory) fn wait(&self, expected: u32, timeout: Option<Duration>) -> Result<()> {
            let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
            // Without `PRIVATE`, the kernel identifies the sleeper by the page of the memfd instead of this process's
            // address.
            match futex::wait(&self.0, futex::Flags::empty(), expected, timeout.as_ref()) {
                Err(Errno::AGAIN) => Ok(()),
                other => other,
            }
        }

        /// Wakes the thread that sleeps on the word.
        pub(in crate::memory) fn wake(&self) {
            let woken = futex::wake(&self.0, futex::Flags::empty(), i32::MAX as u32);
            debug_assert!(woken.is_ok(), "waking does not fail on mapped memory");
        }
    }
}

#[cfg(loom)]
mod model {
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};
    use rustix::io::Result;

    use super::{AtomicU32, Ordering};

    /// The kernel's futex: it compares and falls asleep in one step; this model has no timeouts.
    pub(in crate::memory) struct Futex {
        word: AtomicU32,
        queue: Mutex<()>,
        sleepers: Condvar,
    }

    impl Futex {
        pub(super) fn new() -> Self {
            Self { word: AtomicU32::new(0), queue: Mutex::new(()), sleepers: Condvar::new() }
        }

        pub(in crate::memory) fn load(&self, ordering: Ordering) -> u32 {
            self.word.load(ordering)
        }

        pub(in crate::memory) fn store(&self, value: u32, ordering: Ordering) {
            self.word.store(value, ordering);
        }

        pub(in crate::memory) fn fetch_add(&self, value: u32, ordering: Ordering) -> u32 {
            self.word.fetch_add(value, ordering)
        }

        pub(in crate::memory) fn wait(&self, expected: u32, _timeout: Option<Duration>) -> Result<()> {
            let queue = self.queue.lock().expect("no thread of a model panics");
            if self.word.load(Ordering::Relaxed) == expected {
                drop(self.sleepers.wait(queue).expect("no thread of a model panics"));
            }
            Ok(())
        }

        pub(in crate::memory) fn wake(&self) {
            drop(self.queue.lock().expect("no thread of a model panics"));
            self.sleepers.notify_all();
        }
    }
}
