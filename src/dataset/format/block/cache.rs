//! [`BlockCache`]: what was decoded, for as long as it is likely to be read again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::cache_info::CacheInfo;
use crate::Result;
use crate::memory::PerProcess;
use crate::watch;

/// So many bytes of decoded blocks are kept, unless the caller says otherwise.
pub(crate) const CACHED_BYTES: usize = 256 << 20;

/// How often one who waits for a block looks whether he still wants it.
const LOOK: Duration = Duration::from_millis(50);

/// Decoded blocks (row groups, unpacked shards) by their keys. When they have more than a number of bytes together, those
/// go first of which every sample was read, then those that were not asked for the longest; what is still being read
/// stays in memory, and is found again as long as he does.
///
/// An epoch reads each sample once: when it reads by blocks, in windows of some of them, what it has read whole is what it
/// does not need any more, and a cache of one window is enough for each block to be decoded once. Whoever reads a batch asks
/// for what is here ([`peek`](Self::peek)) before he has something decoded: so all blocks of a window that ends in his batch
/// have been read whole when the first one of the next is to find room. Where others read batches ahead at the same time, the
/// blocks that they have begun need room besides. By the time of use alone, a batch of some windows would have blocks go that
/// it has just begun, instead of those that lie in it whole.
///
/// A block is decoded by the first thread that asks for it, while all others that ask for the same one wait. No lock is held
/// meanwhile. When decoding fails or panics, the next one that waits tries for itself. A forked child begins with none. The thread
/// that decodes a block may ask for it again (a signal handler that it runs may, or other work of its pool, which it does while it
/// waits for a part of its own): it would wait for itself, so it decodes that once more.
pub(crate) struct BlockCache<K, B> {
    limit: usize,
    shelf: PerProcess<Shelf<K, B>>,
}

struct Shelf<K, B> {
    blocks: Mutex<Blocks<K, B>>,
    /// Something was decoded, or could not be.
    settled: Condvar,
}

struct Blocks<K, B> {
    entries: HashMap<K, Entry<B>>,
    /// Of what is kept; at most the limit whenever the lock is free.
    bytes: usize,
    /// The number of times that something was asked for.
    clock: u64,
    /// How many blocks were given up and may still be read.
    given_up: usize,
    decoded: u64,
    decoded_in_part: u64,
    found: u64,
}

/// How many of the samples of a block are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Nobody counts them: the block is never taken for read.
    Uncounted,
    /// So many `now`, of `all` that it has.
    Counted { now: usize, all: usize },
}

impl Reads {
    /// How many are left to be read, where `left` were.
    fn leave(self, left: usize) -> usize {
        match self {
            Self::Uncounted => left,
            Self::Counted { now: 0, .. } => left,
            // Read once more from the first sample on: another epoch.
            Self::Counted { now, all } if left == 0 => all.saturating_sub(now),
            Self::Counted { now, .. } => left.saturating_sub(now),
        }
    }

    /// How many are in a block that has just been decoded.
    fn all(self) -> usize {
        match self {
            Self::Uncounted => usize::MAX,
            Self::Counted { all, .. } => all,
        }
    }
}

enum Entry<B> {
    /// A thread is at it.
    Decoding(ThreadId),
    Kept {
        block: Arc<B>,
        bytes: usize,
        asked: u64,
        /// How many samples were not read since it was decoded.
        unread: usize,
    },
    GivenUp(Weak<B>),
}

impl<K: Eq + Hash + Clone + Send + Sync, B: Send + Sync> BlockCache<K, B> {
    /// A cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, shelf: PerProcess::new() }
    }

    /// The same cache, with room for `limit` bytes.
    pub(crate) fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// The block of `key`. Where it is not there, `decode` makes it and says how many bytes it has.
    ///
    /// # Errors
    /// Those of `decode`.
    pub(crate) fn get(&self, key: &K, decode: impl FnOnce() -> Result<(B, usize)>) -> Result<Arc<B>> {
        self.read(key, Reads::Uncounted, decode)
    }

    /// The block of `key`, of which `reads` are read: as [`get`](Self::get).
    ///
    /// # Errors
    /// Those of `decode`.
    pub(crate) fn read(&self, key: &K, reads: Reads, decode: impl FnOnce() -> Result<(B, usize)>) -> Result<Arc<B>> {
        let shelf = self.shelf.get_or_make(Shelf::default);
        let mut blocks = shelf.lock();
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
                Some(Entry::GivenUp(block)) => {
                    if let Some(block) = block.upgrade() {
                        blocks.found += 1;
                        return Ok(block);
                    }
                    blocks.given_up -= 1;
                }
                Some(Entry::Decoding(thread)) if *thread == thread::current().id() => {
                    drop(blocks);
                    return Ok(Arc::new(decode()?.0));
                }
                Some(Entry::Decoding(_)) => {
                    drop(shelf.settled.wait_timeout(blocks, LOOK).unwrap_or_else(PoisonError::into_inner));
                    // Without the lock: what watches may run anything.
                    watch::advance(0)?;
                    blocks = shelf.lock();
                    continue;
                }
                None => {}
            }
            blocks.entries.insert(key.clone(), Entry::Decoding(thread::current().id()));
            break;
        }
        drop(blocks);
        let turn = Turn { shelf, key };
        let (block, bytes) = decode()?;
        let block = Arc::new(block);
        let surplus = turn.settle(&block, bytes, reads, self.limit);
        // Without the lock: giving memory back takes its time.
        drop(surplus);
        Ok(block)
    }

    /// The block of `key`, of which `reads` are read, if it is there or being read.
    pub(crate) fn peek(&self, key: &K, reads: Reads) -> Option<Arc<B>> {
        let mut blocks = self.shelf.get_or_make(Shelf::default).lock();
        blocks.clock += 1;
        let now = blocks.clock;
        let found = match blocks.entries.get_mut(key)? {
            Entry::Kept { block, asked, unread, .. } => {
                (*asked, *unread) = (now, reads.leave(*unread));
                Some(Arc::clone(block))
            }
            Entry::GivenUp(block) => block.upgrade(),
            Entry::Decoding(_) => None,
        };
        blocks.found += u64::from(found.is_some());
        found
    }

    /// Counts a block of which only a part was decoded, which is not kept.
    #[cfg(feature = "parquet")]
    pub(crate) fn count_part(&self) {
        self.shelf.get_or_make(Shelf::default).lock().decoded_in_part += 1;
    }

    /// True if the block of `key` is there, or is being decoded or read.
    pub(crate) fn is_here(&self, key: &K) -> bool {
        match self.shelf.get_or_make(Shelf::default).lock().entries.get(key) {
            Some(Entry::Kept { .. } | Entry::Decoding(_)) => true,
            Some(Entry::GivenUp(block)) => block.strong_count() > 0,
            None => false,
        }
    }

    /// How many bytes may be kept.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// What it has done, and what it holds.
    pub(crate) fn info(&self) -> CacheInfo {
        let blocks = self.shelf.get_or_make(Shelf::default).lock();
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

impl<K, B> Default for Shelf<K, B> {
    fn default() -> Self {
        let entries = HashMap::new();
        let blocks = Blocks { entries, bytes: 0, clock: 0, given_up: 0, decoded: 0, decoded_in_part: 0, found: 0 };
        Self { blocks: Mutex::new(blocks), settled: Condvar::new() }
    }
}

impl<K, B> Shelf<K, B> {
    fn lock(&self) -> MutexGuard<'_, Blocks<K, B>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The duty to settle what is `Decoding`: dropped, it has failed.
struct Turn<'a, K: Eq + Hash, B> {
    shelf: &'a Shelf<K, B>,
    key: &'a K,
}

impl<K: Eq + Hash + Clone, B> Turn<'_, K, B> {
    /// Keeps the block; returns those that have to go for it.
    fn settle(self, block: &Arc<B>, bytes: usize, reads: Reads, limit: usize) -> Vec<Arc<B>> {
        let mut blocks = self.shelf.lock();
        blocks.decoded += 1;
        let (asked, unread) = (blocks.clock, reads.leave(reads.all()));
        // What is larger than all that may be kept is only found as long as it is being read.
        let entry = match bytes > limit {
            true => Entry::GivenUp(Arc::downgrade(block)),
            false => Entry::Kept { block: Arc::clone(block), bytes, asked, unread },
        };
        match entry {
            Entry::Kept { .. } => blocks.bytes += bytes,
            _ => blocks.given_up += 1,
        }
        blocks.entries.insert(self.key.clone(), entry);
        blocks.shrink(limit)
    }
}

impl<K: Eq + Hash, B> Drop for Turn<'_, K, B> {
    fn drop(&mut self) {
        let mut blocks = self.shelf.lock();
        if matches!(blocks.entries.get(self.key), Some(Entry::Decoding(_))) {
            blocks.entries.remove(self.key);
        }
        drop(blocks);
        self.shelf.settled.notify_all();
    }
}

impl<K: Eq + Hash + Clone, B> Blocks<K, B> {
    /// Gives up what was read whole, and then what was not asked for the longest, until the rest is within `limit`.
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
                let given_up = Entry::GivenUp(Arc::downgrade(block));
                if let Entry::Kept { block, .. } = std::mem::replace(entry, given_up) {
                    surplus.push(block);
                }
                self.given_up += 1;
            }
        }
        // A look at all of them once in a while, so that the keys of what is gone do not pile up.
        if self.given_up > 64 && self.given_up > self.entries.len() / 2 {
            self.entries.retain(|_, entry| !matches!(entry, Entry::GivenUp(block) if block.strong_count() == 0));
            self.given_up = self.entries.values().filter(|entry| matches!(entry, Entry::GivenUp(_))).count();
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
    fn the_block_that_was_not_asked_for_the_longest_goes_first() {
        let cache = BlockCache::new(30);
        assert!([1, 2, 3].iter().all(|&key| decoded(&cache, key)));
        assert!(!decoded(&cache, 1));
        assert!(decoded(&cache, 4));
        assert_eq!(cache.info().bytes, 30);
        assert!(!decoded(&cache, 1) && !decoded(&cache, 3) && !decoded(&cache, 4));
        assert!(decoded(&cache, 2));
    }

    #[test]
    fn what_somebody_reads_is_found_again_though_it_was_given_up() {
        let cache = BlockCache::new(10);
        let held = cache.get(&1, || Ok((vec![1; 10], 10))).unwrap();
        assert!(decoded(&cache, 2) && !decoded(&cache, 1));
        drop(held);
        assert!(decoded(&cache, 1));
    }

    #[test]
    fn a_block_larger_than_the_bound_is_given_out_and_not_kept() {
        let cache = BlockCache::new(9);
        assert!(decoded(&cache, 1) && decoded(&cache, 1));
        assert_eq!(cache.info().bytes, 0);
        for key in 0..1000 {
            decoded(&cache, key);
        }
        assert!(cache.shelf.get_or_make(Shelf::default).lock().entries.len() < 200);
    }

    #[test]
    fn many_threads_that_ask_for_one_block_have_it_decoded_once() {
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
    fn an_error_or_a_panic_wakes_those_who_wait() {
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
