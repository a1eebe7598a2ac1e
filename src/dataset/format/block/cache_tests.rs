//! Tests which blocks [`BlockCache`] keeps when blocks are read in windows, and which threads wait.

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;

use proptest::prelude::*;

use super::cache::{BlockCache, Reads};
use super::starts::BlockStarts;
use crate::{Error, Permutation, watch};

#[test]
fn fully_read_blocks_are_evicted_first() {
    let cache = BlockCache::new(30);
    let read = |key: usize, now| {
        let mut was_decoded = false;
        let block = cache.read(&key, Reads::Counted { now, all: 5 }, || {
            was_decoded = true;
            Ok(((), 10))
        });
        block.unwrap();
        was_decoded
    };
    assert!(read(1, 1) && read(2, 4) && read(3, 1));
    assert!(!read(2, 1), "of 2 all was read, though 1 was not asked for the longest");
    assert!(read(4, 1) && !read(1, 1) && !read(3, 1));
    assert!(read(2, 1), "none is read whole, and 4 was not asked for the longest");
    assert!(!read(1, 3) && !read(3, 1) && !read(2, 1));
    assert!(read(4, 1) && !read(2, 1) && !read(3, 1), "1 was read whole");
    assert_eq!((cache.info().decoded, cache.info().blocks, cache.info().bytes), (6, 3, 30));
}

/// Returns how many blocks are decoded when a loader reads two epochs by blocks: batch by batch, window after window,
/// and in each batch the cached blocks first.
fn decodings(sizes: &[usize], window: usize, batch: usize, limit: usize, is_counted: bool) -> u64 {
    let starts = BlockStarts::new(sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(*end)
    }));
    let cache = BlockCache::new(limit);
    for epoch in 0..2 {
        let order = Permutation::new(sizes.len() as u64, 7, epoch);
        let blocks: Vec<usize> = (0..order.len()).map(|place| order.index_at(place) as usize).collect();
        let mut read = Vec::new();
        for (number, of_window) in blocks.chunks(window).enumerate() {
            let samples: Vec<usize> = of_window.iter().flat_map(|&block| starts.samples_of(block)).collect();
            let shuffled = Permutation::new(samples.len() as u64, number as u64, epoch);
            read.extend((0..shuffled.len()).map(|place| samples[shuffled.index_at(place) as usize]));
        }
        for batch in read.chunks(batch) {
            let found = starts.find(batch).expect("they are in range");
            let reads = found.blocks.iter().zip(&found.counts).map(|(&block, &now)| match is_counted {
                true => (block, Reads::Counted { now, all: sizes[block] }),
                false => (block, Reads::Uncounted),
            });
            let missing: Vec<_> = reads.filter(|(block, reads)| cache.peek(block, *reads).is_none()).collect();
            for (block, reads) in missing {
                cache.read(&block, reads, || Ok(((), sizes[block]))).expect("it can be decoded");
            }
        }
    }
    cache.info().decoded
}

/// Returns the size of the largest possible window in any order.
fn largest_window(sizes: &[usize], window: usize) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.iter().rev().take(window).sum()
}

proptest! {
    #[test]
    fn a_cache_of_one_window_decodes_each_block_once_per_epoch(
        sizes in proptest::collection::vec(1_usize..40, 1..60), window in 1_usize..9, batch in 1_usize..100,
    ) {
        let (limit, blocks) = (largest_window(&sizes, window), sizes.len() as u64);
        // The second epoch may find blocks that the first one has left in the cache.
        let decoded = decodings(&sizes, window, batch, limit, true);
        prop_assert!((blocks..=2 * blocks).contains(&decoded), "{decoded} of {blocks}");
    }
}

#[test]
fn plain_lru_needs_more_than_one_window() {
    let sizes: Vec<usize> = (0..220).map(|block| 20 + block * 37 % 91).collect();
    let limit = largest_window(&sizes, 2);
    assert!(decodings(&sizes, 2, 400, limit, true) <= 440);
    assert!(decodings(&sizes, 2, 400, limit, false) > 440);
}

#[test]
fn half_a_window_is_too_small_for_any_policy() {
    let sizes: Vec<usize> = (0..220).map(|block| 20 + block * 37 % 91).collect();
    assert!(decodings(&sizes, 8, 64, largest_window(&sizes, 8) / 2, true) > 1_000);
}

#[test]
fn a_thread_does_not_wait_for_the_block_it_decodes() {
    let cache = BlockCache::new(100);
    let inner = || cache.get(&1, || Ok((2, 1)));
    let block = cache.get(&1, || Ok((*inner()? + 5, 1)));
    assert_eq!(*block.unwrap(), 7);
    assert_eq!(*cache.get(&1, || Ok((0, 1))).unwrap(), 7, "the outer one is kept");
}

#[test]
fn a_watcher_ends_the_wait_for_a_block_that_is_never_decoded() {
    let (cache, begun) = (BlockCache::new(100), Barrier::new(2));
    let (release, released) = channel::<()>();
    thread::scope(|scope| {
        let (cache, begun) = (&cache, &begun);
        scope.spawn(move || {
            cache.get(&1, || {
                begun.wait();
                let _ = released.recv();
                Ok((1, 1))
            })
        });
        begun.wait();
        let watcher = Box::new(|_| Err(Error::State { reason: "enough".into() }));
        let error = watch::within(watcher, || cache.get(&1, || Ok((2, 1)))).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
        drop(release);
    });
}
