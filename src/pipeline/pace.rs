//! [`Pace`]: whether a batch is worth a thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Handing a batch to a thread and waking the consumer costs 5 to 20 µs on each side: below this a batch is there sooner
/// when the consumer gathers it itself.
const WORTH_A_THREAD: Duration = Duration::from_micros(50);

/// How long a fetch takes: a running mean over about the last four, shared by all threads that fetch.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds; 0 while nothing was measured.
    mean: AtomicU64,
}

impl Pace {
    /// Runs `fetch` and measures it.
    pub(super) fn measure<T>(&self, fetch: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let fetched = fetch();
        let taken = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX / 8).max(1);
        let mean = self.mean.load(Ordering::Relaxed);
        // An update of another thread may get lost here; the next one makes up for it.
        self.mean.store(
            if mean == 0 { taken } else { (3 * (mean / 4)).saturating_add(taken / 4).max(1) },
            Ordering::Relaxed,
        );
        fetched
    }

    /// Whether the next batch should go to a thread. Unmeasured batches do: a slow one must not wait for the consumer.
    pub(super) fn is_worth_a_thread(&self) -> bool {
        let mean = self.mean.load(Ordering::Relaxed);
        mean == 0 || Duration::from_nanos(mean) > WORTH_A_THREAD
    }
}
