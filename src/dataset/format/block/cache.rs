//! [`BlockCache`]: keeps decoded blocks for as long as they are likely to be read again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::cache_info::CacheInfo;
use crate::Result;
use crate::memory::PerProcess;
use crate::watch;

/// The default cache size in bytes: 256 MiB.
pub(crate) const CACHED_BYTES: usize = 256 << 20;

/// How often a thread that waits for a block runs its watchers, which may end the wait.
const LOOK: Duration = Duration::from_millis(50);

/// Decoded blocks (row groups, unpacked shards), by key. Above the limit, blocks whose samples have all been read are
/// evicted first, then the least recently used ones. Evicted blocks that are in use stay in memory, and are found until
/// the last user drops them.
///
/// An epoch reads each sample once. When it reads in windows of some blocks, a block that was read in full is not
/// needed again, so a cache of one window is enough to decode each block once. The reader of a batch takes cached
/// blocks ([`peek`](Self::peek)) before it decodes others: when the batch reaches into the next window, all blocks of
/// the old one have been read in full before the first new one needs room. If other threads read batches ahead, the
/// blocks that they have started need additional room. Plain LRU would make a batch that spans windows evict blocks
/// that it has just started, instead of those that it reads in full.
///
/// The first thread that asks for a block decodes it, without holding a lock; other threads that ask for it wait. If
/// decoding fails or panics, the next waiting thread tries. A forked child starts with an empty cache. The decoding
/// thread may ask for the same block again (in a signal handler, or in another task of its pool, which it runs while it
/// waits for part of its own): it would wait for itself, so it decodes the block a second time.
pub(crate) struct BlockCache<K, B> {
    limit: usize,
    shared: PerProcess<SharedBlocks<K, B>>,
}

struct SharedBlocks<K, B> {
    blocks: Mutex<Blocks<K, B>>,
    /// Signaled when a block was decoded, or failed to be.
    settled: Condvar,
}

struct Blocks<K, B> {
    entries: HashMap<K, Entry<B>>,
    /// The size of kept blocks; at most the limit whenever the lock is free.
    bytes: usize,
    /// The number of lookups, as a clock.
    clock: u64,
    /// The number of evicted blocks that may still be in use.
    evicted: usize,
    decoded: u64,
    decoded_in_part: u64,
    found: u64,
}

/// How many samples of a block are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Not counted: the block never counts as read in full.
    Uncounted,
    /// Reads `now` of `all` samples of the block.
    Counted { now: usize, all: usize },
}

impl Reads {
    /// Returns how many samples are unread afterwards, if `left` were unread before.
    fn leave(self, left: usize) -> usize {
        match self {
            Self::Uncounted => left,
            Self::Counted { now: 0, .. } => left,
            // All samples had been read, so another epoch has begun.
            Self::Counted { now, all } if left == 0 => all.saturating_sub(now),
            Self::Counted { now, .. } => left.saturating_sub(now),
        }
    }

    /// Returns how many samples of a newly decoded block are unread.
    fn all(self) -> usize {
        match self {
            Self::Uncounted => usize::MAX,
            Self::Counted { all, .. } => all,
        }
    }
}

enum Entry<B> {
    /// This thread is decoding the block.
    Decoding(ThreadId),
    Kept {
        block: Arc<B>,
        bytes: usize,
        asked: u64,
        /// The number of samples not read since it was decoded.
        unread: usize,
    },
    Evicted(Weak<B>),
}

impl<K: Eq + Hash + Clone + Send + Sync, B: Send + Sync> BlockCache<K, B> {
    /// Creates a cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, shared: PerProcess::new() }
    }

    /// Returns this cache with another limit in bytes.
    pub(crate) fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Returns the block of `key`. If it is not cached, `decode` returns it, with its size in bytes.
    ///
    /// # Errors
    /// Errors of `decode`, or of a watcher while waiting.
    pub(crate) fn get(&self, key: &K, decode: impl FnOnce() -> Result<(B, usize)>) -> Result<Arc<B>> {
        self.read(key, Reads::Uncounted, decode)
    }

    /// Like [`get`](Self::get); `reads` says how many samples of the block are read.
    ///
    /// # Errors
    /// Errors of `decode`, or of a watcher while waiting.
    pub(crate) fn read(&self, key: &K, reads: Reads, decode: impl FnOnce() -> Result<(B, usize)>) -> Result<Arc<B>> {
        let shared = self.shared.get_or_make(SharedBlocks::default);
        let mut blocks = shared.lock();
        loop {
            blocks.clock += 1;
            let now = blocks.clock;
            match blocks.entries.get_mut(key) {
                Some(Entry::Kept { block, asked, unread, .. }) => {
                    (*asked, *unread) = (now, reads.leave(*unread));
                    let block = Arc::clone(block);
                    blocks.found += 1;
                    return Ok(block);
                }
                Some(Entry::Evicted(block)) => {
                    if let Some(block) = block.upgrade() {
                        blocks.found += 1;
                        return Ok(block);
                    }
                    blocks.evicted -= 1;
                }
                Some(Entry::Decoding(thread)) if *thread == thread::current().id() => {
                    drop(blocks);
                    return Ok(Arc::new(decode()?.0));
                }
                Some(Entry::Decoding(_)) => {
                    drop(shared.settled.wait_timeout(blocks, LOOK).unwrap_or_else(PoisonError::into_inner));
                    // Without the lock: watchers may run arbitrary code.
                    watch::advance(0)?;
                    blocks = shared.lock();
                    continue;
                }
                None => {}
            }
            blocks.entries.insert(key.clone(), Entry::Decoding(thread::current().id()));
            break;
        }
        drop(blocks);
        let turn = Turn { shared, key };
        let (block, bytes) = decode()?;
        let block = Arc::new(block);
        let surplus = turn.settle(&block, bytes, reads, self.limit);
        // Without the lock: freeing memory takes time.
        drop(surplus);
        Ok(block)
    }

    /// Returns the block of `key` if it is cached or in use; `reads` says how many of its samples are read.
    pub(crate) fn peek(&self, key: &K, reads: Reads) -> Option<Arc<B>> {
        let mut blocks = self.shared.get_or_make(SharedBlocks::default).lock();
        blocks.clock += 1;
        let now = blocks.clock;
        let found = match blocks.entries.get_mut(key)? {
            Entry::Kept { block, asked, unread, .. } => {
                (*asked, *unread) = (now, reads.leave(*unread));
                Some(Arc::clone(block))
            }
            Entry::Evicted(block) => block.upgrade(),
            Entry::Decoding(_) => None,
        };
        blocks.found += u64::from(found.is_some());
        found
    }

    /// Counts a block that was decoded only in part, and is not cached.
    #[cfg(feature = "parquet")]
    pub(crate) fn count_part(&self) {
        self.shared.get_or_make(SharedBlocks::default).lock().decoded_in_part += 1;
    }

    /// True if the block of `key` is cached, in use, or being decoded.
    pub(crate) fn has(&self, key: &K) -> bool {
        match self.shared.get_or_make(SharedBlocks::default).lock().entries.get(key) {
            Some(Entry::Kept { .. } | Entry::Decoding(_)) => true,
            Some(Entry::Evicted(block)) => block.strong_count() > 0,
            None => false,
        }
    }

    /// Returns the limit in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns its counters, and what it holds.
    pub(crate) fn info(&self) -> CacheInfo {
        let blocks = self.shared.get_or_make(SharedBlocks::default).lock();
        CacheInfo {
            decoded: blocks.decoded,
            decoded_in_part: blocks.decoded_in_part,
            found: blocks.found,
            blocks: blocks.entries.values().filter(|entry| matches!(entry, Entry::Kept { .. })).count(),
            bytes: blocks.bytes,
            limit: self.limit,
        }
    }
}

impl<K, B> Default for SharedBlocks<K, B> {
    fn default() -> Self {
        let entries = HashMap::new();
        let blocks = Blocks { entries, bytes: 0, clock: 0, evicted: 0, decoded: 0, decoded_in_part: 0, found: 0 };
        Self { blocks: Mutex::new(blocks), settled: Condvar::new() }
    }
}

impl<K, B> SharedBlocks<K, B> {
    fn lock(&self) -> MutexGuard<'_, Blocks<K, B>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guards an entry in the state `Decoding`. If it is dropped without [`settle`](Turn::settle), decoding has failed.
struct Turn<'a, K: Eq + Hash, B> {
    shared: &'a SharedBlocks<K, B>,
    key: &'a K,
}

impl<K: Eq + Hash + Clone, B> Turn<'_, K, B> {
    /// Caches the block. Returns evicted blocks, to be dropped without the lock.
    fn settle(self, block: &Arc<B>, bytes: usize, reads: Reads, limit: usize) -> Vec<Arc<B>> {
        let mut blocks = self.shared.lock();
        blocks.decoded += 1;
        let (asked, unread) = (blocks.clock, reads.leave(reads.all()));
        // A block larger than the limit is not kept; it is found only while it is in use.
        let entry = match bytes > limit {
            true => Entry::Evicted(Arc::downgrade(block)),
            false => Entry::Kept { block: Arc::clone(block), bytes, asked, unread },
        };
        match entry {
            Entry::Kept { .. } => blocks.bytes += bytes,
            _ => blocks.evicted += 1,
        }
        blocks.entries.insert(self.key.clone(), entry);
        blocks.shrink(limit)
    }
}

impl<K: Eq + Hash, B> Drop for Turn<'_, K, B> {
    fn drop(&mut self) {
        let mut blocks = self.shared.lock();
        if matches!(blocks.entries.get(self.key), Some(Entry::Decoding(_))) {
            blocks.entries.remove(self.key);
        }
        drop(blocks);
        self.shared.settled.notify_all();
    }
}

impl<K: Eq + Hash + Clone, B> Blocks<K, B> {
    /// Evicts blocks that were read in full, then the least recently used ones, until the rest fits into `limit`.
    fn shrink(&mut self, limit: usize) -> Vec<Arc<B>> {
        let mut surplus = Vec::new();
        while self.bytes > limit {
            let kept = self.entries.iter().filter_map(|(key, entry)| match entry {
                Entry::Kept { asked, unread, .. } => Some(((*unread > 0, *asked), key)),
                _ => None,
            });
            let Some(oldest) = kept.min_by_key(|(rank, _)| *rank).map(|(_, key)| key.clone()) else { break };
            let entry = self.entries.get_mut(&oldest).expect("it was found just now");
            if let Entry::Kept { block, bytes, .. } = entry {
                self.bytes -= *bytes;
                let evicted = Entry::Evicted(Arc::downgrade(block));
                if let Entry::Kept { block, .. } = std::mem::replace(entry, evicted) {
                    surplus.push(block);
                }
                self.evicted += 1;
            }
        }
        // Clean up from time to time, so that the keys of dropped blocks do not pile up.
        if self.evicted > 64 && self.evicted > self.entries.len() / 2 {
            self.entries.retain(|_, entry| !matches!(entry, Entry::Evicted(block) if block.strong_count() == 0));
            self.evicted = self.entries.values().filter(|entry| matches!(entry, Entry::Evicted(_))).count();
        }
        surplus
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::Error;

    fn decoded(cache: &BlockCache<usize, Vec<usize>>, key: usize) -> bool {
        let mut was_decoded = false;
        let block = cache.get(&key, || {
            was_decoded = true;
            Ok((vec![key; 10], 10))
        });
        assert_eq!(*block.unwrap(), [key; 10]);
        was_decoded
    }

    #[test]
    fn the_least_recently_used_block_is_evicted_first() {
        let cache = BlockCache::new(30);
        assert!([1, 2, 3].iter().all(|&key| decoded(&cache, key)));
        assert!(!decoded(&cache, 1));
        assert!(decoded(&cache, 4));
        assert_eq!(cache.info().bytes, 30);
        assert!(!decoded(&cache, 1) && !decoded(&cache, 3) && !decoded(&cache, 4));
        assert!(decoded(&cache, 2));
    }

    #[test]
    fn an_evicted_block_in_use_is_found_again() {
        let cache = BlockCache::new(10);
        let held = cache.get(&1, || Ok((vec![1; 10], 10))).unwrap();
        assert!(decoded(&cache, 2) && !decoded(&cache, 1));
        drop(held);
        assert!(decoded(&cache, 1));
    }

    #[test]
    fn a_block_larger_than_the_cache_is_returned_but_not_cached() {
        let cache = BlockCache::new(9);
        assert!(decoded(&cache, 1) && decoded(&cache, 1));
        assert_eq!(cache.info().bytes, 0);
        for key in 0..1000 {
            decoded(&cache, key);
        }
        assert!(cache.shared.get_or_make(SharedBlocks::default).lock().entries.len() < 200);
    }

    #[test]
    fn concurrent_requests_decode_a_block_once() {
        let (cache, decodings, start) = (BlockCache::new(100), AtomicUsize::new(0), Barrier::new(8));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    let block = cache.get(&"x", || {
                        decodings.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(20));
                        Ok((7, 1))
                    });
                    assert_eq!(*block.unwrap(), 7);
                });
            }
        });
        assert_eq!(decodings.into_inner(), 1);
    }

    #[test]
    fn an_error_or_a_panic_wakes_waiting_threads() {
        let (cache, start) = (BlockCache::<u8, u8>::new(100), Barrier::new(3));
        let fails = |is_panic: bool| {
            start.wait();
            catch_unwind(AssertUnwindSafe(|| {
                cache.get(&1, || {
                    thread::sleep(Duration::from_millis(10));
                    assert!(!is_panic, "the decoder panics");
                    Err(Error::State { reason: "no".into() })
                })
            }))
        };
        thread::scope(|scope| {
            let panicked = scope.spawn(|| fails(true));
            let failed = scope.spawn(|| fails(false));
            start.wait();
            assert!(panicked.join().unwrap().is_err());
            assert!(failed.join().unwrap().unwrap().is_err());
        });
        assert_eq!(*cache.get(&1, || Ok((2, 1))).unwrap(), 2);
    }
}
