//! [`Pace`]: how long batches take, and whether one is [worth](Worth) a thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Handing a batch to a thread and waking the consumer costs 5 to 20 µs on each side: below this duration, the batch is
/// ready sooner if the consumer gathers it itself.
const WORTH_A_THREAD: Duration = Duration::from_micros(50);

/// Handing a batch to an awake thread, and reading it from another processor's cache, takes a few µs; below this
/// duration it is not worth that.
const WORTH_A_THREAD_AWAKE: Duration = Duration::from_micros(8);

/// How much effort it is worth to have a batch fetched by a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// The consumer fetches it when its turn comes.
    Nothing,
    /// The first awake thread, or the consumer, fetches it.
    ThreadAwake,
    /// A thread is woken for it.
    Thread,
}

/// The duration of a fetch: a running mean over about the last four, shared by all threads that fetch.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds; 0 before the first measurement.
    mean: AtomicU64,
}

impl Pace {
    /// Runs `fetch` and measures it.
    pub(super) fn measure<T>(&self, fetch: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let fetched = fetch();
        let taken = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX / 8).max(1);
        let mean = self.mean.load(Ordering::Relaxed);
        // A concurrent update by another thread may be lost here; the next one makes up for it.
        self.mean.store(
            if mean == 0 { taken } else { (3 * (mean / 4)).saturating_add(taken / 4).max(1) },
            Ordering::Relaxed,
        );
        fetched
    }

    /// Returns what the next batch is worth. An unmeasured batch is worth a thread: a slow one must not wait for the
    /// consumer.
    pub(super) fn worth(&self) -> Worth {
        match Duration::from_nanos(self.mean.load(Ordering::Relaxed)) {
            Duration::ZERO => Worth::Thread,
            mean if mean > WORTH_A_THREAD => Worth::Thread,
            mean if mean > WORTH_A_THREAD_AWAKE => Worth::ThreadAwake,
            _ => Worth::Nothing,
        }
    }
}
