//! [`BlockCache`]: what was decoded, for as long as it is likely to be read again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use crate::Result;
use crate::memory::PerProcess;

/// So many bytes of decoded blocks are kept, unless the caller says otherwise.
pub(crate) const CACHED_BYTES: usize = 256 << 20;

/// Decoded blocks (row groups, unpacked shards) by their keys. When they have more than a number of bytes together, those
/// go that were not asked for the longest; what somebody still reads stays in memory, and is found again as long as he does.
///
/// A block is decoded by the first thread that asks for it, while all others that ask for the same one wait. No lock is held
/// meanwhile. When decoding fails or panics, the next one that waits tries for itself. A forked child begins with none.
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
    /// How many blocks were given up and may still be read by somebody.
    given_up: usize,
}

enum Entry<B> {
    /// A thread is at it.
    Decoding,
    Kept {
        block: Arc<B>,
        bytes: usize,
        asked: u64,
    },
    GivenUp(Weak<B>),
}

impl<K: Eq + Hash + Clone + Send + Sync, B: Send + Sync> BlockCache<K, B> {
    /// A cache of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, shelf: PerProcess::new() }
    }

    /// The block of `key`. Where it is not there, `decode` makes it and says how many bytes it has; it must not ask for the
    /// same key.
    ///
    /// # Errors
    /// Those of `decode`.
    pub(crate) fn get(&self, key: &K, decode: impl FnOnce() -> Result<(B, usize)>) -> Result<Arc<B>> {
        let shelf = self.shelf.get_or_make(Shelf::default);
        let mut blocks = shelf.lock();
        loop {
            blocks.clock += 1;
            let now = blocks.clock;
            match blocks.entries.get_mut(key) {
                Some(Entry::Kept { block, asked, .. }) => {
                    *asked = now;
                    return Ok(Arc::clone(block));
                }
                Some(Entry::GivenUp(block)) => {
                    if let Some(block) = block.upgrade() {
                        return Ok(block);
                    }
                    blocks.given_up -= 1;
                }
                Some(Entry::Decoding) => {
                    blocks = shelf.settled.wait(blocks).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                None => {}
            }
            blocks.entries.insert(key.clone(), Entry::Decoding);
            break;
        }
        drop(blocks);
        let turn = Turn { shelf, key };
        let (block, bytes) = decode()?;
        let block = Arc::new(block);
        let surplus = turn.settle(&block, bytes, self.limit);
        // Without the lock: giving memory back takes its time.
        drop(surplus);
        Ok(block)
    }

    /// The block of `key`, if it is there or somebody reads it.
    #[cfg(feature = "parquet")]
    pub(crate) fn peek(&self, key: &K) -> Option<Arc<B>> {
        let mut blocks = self.shelf.get_or_make(Shelf::default).lock();
        blocks.clock += 1;
        let now = blocks.clock;
        match blocks.entries.get_mut(key)? {
            Entry::Kept { block, asked, .. } => {
                *asked = now;
                Some(Arc::clone(block))
            }
            Entry::GivenUp(block) => block.upgrade(),
            Entry::Decoding => None,
        }
    }

    /// The size of what is kept, in bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.shelf.get_or_make(Shelf::default).lock().bytes
    }
}

impl<K, B> Default for Shelf<K, B> {
    fn default() -> Self {
        let blocks = Blocks { entries: HashMap::new(), bytes: 0, clock: 0, given_up: 0 };
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
    fn settle(self, block: &Arc<B>, bytes: usize, limit: usize) -> Vec<Arc<B>> {
        let mut blocks = self.shelf.lock();
        let asked = blocks.clock;
        // What is larger than all that may be kept is only found as long as somebody reads it.
        let entry = match bytes > limit {
            true => Entry::GivenUp(Arc::downgrade(block)),
            false => Entry::Kept { block: Arc::clone(block), bytes, asked },
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
        if matches!(blocks.entries.get(self.key), Some(Entry::Decoding)) {
            blocks.entries.remove(self.key);
        }
        drop(blocks);
        self.shelf.settled.notify_all();
    }
}

impl<K: Eq + Hash + Clone, B> Blocks<K, B> {
    /// Gives up what was not asked for the longest, until the rest is within `limit`.
    fn shrink(&mut self, limit: usize) -> Vec<Arc<B>> {
        let mut surplus = Vec::new();
        while self.bytes > limit {
            let kept = self.entries.iter().filter_map(|(key, entry)| match entry {
                Entry::Kept { asked, .. } => Some((*asked, key)),
                _ => None,
            });
            let Some(oldest) = kept.min_by_key(|(asked, _)| *asked).map(|(_, key)| key.clone()) else { break };
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
        assert_eq!(cache.bytes(), 30);
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
        assert_eq!(cache.bytes(), 0);
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
