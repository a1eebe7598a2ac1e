//! [`PageCache`]: tracks whether the data that is read is in memory.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::disk_reads;

/// Batches that are announced after one that had to wait for the disk. Then the first sample of a batch shows whether
/// announcing is still needed.
const ANNOUNCED: u32 = 64;

/// Tracks whether the files of a dataset are in the operating system's page cache, by counting waits for the disk.
///
/// Announcing reads, so that the disk works on all of them at once, costs about as much as reading the bytes from
/// memory, so it is done only while it helps. Can be used by many threads at once.
pub(crate) struct PageCache {
    /// The number of batches that are still to be announced.
    left: AtomicU32,
    /// Returns how often the current thread has waited for the disk so far.
    disk_reads: fn() -> libc::c_long,
}

impl PageCache {
    pub(crate) fn new() -> Self {
        Self { left: AtomicU32::new(0), disk_reads }
    }

    /// Returns a guard to be held while a batch is read. `announce` is called at once if earlier batches had to wait
    /// for the disk, or when the first [`was_read`](AnnouncedBatch::was_read) finds that this one had to.
    pub(crate) fn batch<A: FnOnce()>(&self, announce: A) -> AnnouncedBatch<'_, A> {
        let left = self.left.load(Ordering::Relaxed);
        let mut batch = AnnouncedBatch { cache: self, left, announce: Some(announce), has_waited: false, before: 0 };
        if left > 0 {
            batch.announce();
        }
        batch.before = (self.disk_reads)();
        batch
    }
}

/// A batch that is being read, on one thread.
pub(crate) struct AnnouncedBatch<'a, A: FnOnce()> {
    cache: &'a PageCache,
    left: u32,
    announce: Option<A>,
    has_waited: bool,
    before: libc::c_long,
}

impl<A: FnOnce()> AnnouncedBatch<'_, A> {
    /// To be called when a part of the batch was read: if the first part had to wait, the rest is announced.
    pub(crate) fn was_read(&mut self) {
        if self.announce.is_some() {
            self.has_waited = (self.cache.disk_reads)() != self.before;
            if self.has_waited {
                self.announce();
                // Reads made by `announce` itself do not count as waits.
                self.before = (self.cache.disk_reads)();
            }
            self.announce = None;
        }
    }

    fn announce(&mut self) {
        if let Some(announce) = self.announce.take() {
            announce();
        }
    }
}

impl<A: FnOnce()> Drop for AnnouncedBatch<'_, A> {
    fn drop(&mut self) {
        if self.has_waited || (self.cache.disk_reads)() != self.before {
            self.cache.left.store(ANNOUNCED, Ordering::Relaxed);
        } else if self.left > 0 {
            // Two threads may count the same batch; it only matters that the counter reaches 0.
            self.cache.left.store(self.left - 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static WAITED: Cell<libc::c_long> = const { Cell::new(0) };
    }

    /// Reads `batches` of four rows. `waits` decides from a batch's number and whether it was announced if each row
    /// waits. Returns how many batches were announced, and how many rows waited.
    fn read(cache: &PageCache, batches: usize, waits: impl Fn(usize, bool) -> bool) -> (usize, libc::c_long) {
        let (mut announced, waited) = (0, WAITED.get());
        for _ in 0..batches {
            let is_announced = Cell::new(false);
            let mut batch = cache.batch(|| is_announced.set(true));
            for row in 0..4 {
                if waits(row, is_announced.get()) {
                    WAITED.set(WAITED.get() + 1);
                }
                batch.was_read();
            }
            drop(batch);
            announced += usize::from(is_announced.get());
        }
        (announced, WAITED.get() - waited)
    }

    #[test]
    fn prefetch_hints_stop_when_useless() {
        let cache = PageCache { left: AtomicU32::new(0), disk_reads: || WAITED.get() };
        assert_eq!(read(&cache, 100, |_, _| false), (0, 0), "all lies in memory");
        assert_eq!(read(&cache, 651, |_, is_announced| !is_announced), (651, 11), "one row in 65 batches waits");
        assert_eq!(read(&cache, 1000, |_, _| false), (64, 0), "and by now it does");
        assert_eq!(read(&cache, 2, |row, is_announced| row == 2 && !is_announced), (1, 1), "part of it lies in memory");
    }
}
