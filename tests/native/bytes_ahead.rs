//! The bound in bytes on prefetching: held memory stays below it, and the batches do not depend on it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::internal::{Arena, BytesAhead, Segment, Slab, container_bytes};
use sluicegate::{DType, DataLoader, Dataset, Delivery, Field, Result, SampleWriter, Schema};

const MIB: usize = 1 << 20;

fn bound(bytes: usize) -> Option<NonZeroUsize> {
    NonZeroUsize::new(bytes)
}

/// Samples of one KiB, each filled with its number, slow enough to be worth a thread; counts the samples read.
struct Slow {
    schema: Schema,
    read: Arc<AtomicUsize>,
}

impl Slow {
    fn new(read: &Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self { schema: Schema::new([Field::new("x", DType::UInt8, [1024])]), read: Arc::clone(read) })
    }
}

impl Dataset for Slow {
    fn len(&self) -> usize {
        200
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        thread::sleep(Duration::from_micros(50));
        into.field(0).fill(index as u8);
        self.read.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Returns the number of samples read, once it has not changed for a while.
fn settled(read: &AtomicUsize) -> usize {
    let (mut last, mut since) = (read.load(Ordering::SeqCst), Instant::now());
    while since.elapsed() < Duration::from_millis(100) {
        thread::sleep(Duration::from_millis(5));
        let now = read.load(Ordering::SeqCst);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

#[test]
fn reading_ahead_stays_within_the_byte_bound() {
    for (bytes, fits) in [(1, 1), (4095, 1), (4096, 1), (3 * 4096 + 100, 3), (1 << 20, 16)] {
        let read = Arc::default();
        let builder = DataLoader::builder(Slow::new(&read)).batch_size(4).threads(2).prefetch(8);
        let loader = builder.prefetch_bytes(NonZeroUsize::new(bytes).unwrap()).build().unwrap();
        let mut batches = loader.epoch(0).unwrap();
        let first = batches.next().unwrap().unwrap();
        assert_eq!(first.slot_bytes(), 4096);
        assert_eq!(settled(&read), 4 * (1 + fits), "{bytes} bytes");
        assert_eq!((loader.bytes_ahead().batches(), loader.bytes_ahead().bytes()), (fits, fits * 4096));
        assert_eq!(batches.count(), 49);
        let ahead = loader.bytes_ahead();
        assert!((4096..=bytes.max(4096)).contains(&ahead.high_water()), "{} of {bytes}", ahead.high_water());
        assert_eq!((ahead.batches(), ahead.bytes(), ahead.largest()), (0, 0, 4096));
    }
}

#[test]
fn batches_do_not_depend_on_the_byte_bound() {
    let of = |threads, bytes, delivery| {
        let builder = DataLoader::builder(Slow::new(&Arc::default())).batch_size(7).shuffle(3).threads(threads);
        let builder = bound(bytes).into_iter().fold(builder, |builder, bytes| builder.prefetch_bytes(bytes));
        let loader = builder.delivery(delivery).build().unwrap();
        loader.epoch(1).unwrap().map(|batch| batch.unwrap().to_vec::<u8>(0).unwrap()).collect::<Vec<_>>()
    };
    let expected = of(0, 0, Delivery::InOrder);
    for bytes in [0, 1, 20_000, usize::MAX] {
        assert_eq!(of(3, bytes, Delivery::InOrder), expected, "{bytes} bytes");
        let (mut found, mut sorted) = (of(3, bytes, Delivery::AsCompleted), expected.clone());
        found.sort();
        sorted.sort();
        assert_eq!(found, sorted, "{bytes} bytes");
    }
}

#[test]
fn consumers_share_the_bound_and_each_has_one_batch() {
    let ahead = Arc::new(BytesAhead::new(bound(1000)));
    let mut parties = vec![ahead.join(), ahead.join(), ahead.join()];
    assert!(parties.iter().all(|party| party.room() == 1), "until a size is known");
    ahead.learn(100);
    assert_eq!(parties[0].room(), 3);
    ahead.learn(50);
    assert_eq!(parties[0].room(), 3, "the largest counts");
    parties.truncate(1);
    assert_eq!(parties[0].room(), 10);
    ahead.learn(1001);
    assert_eq!(parties[0].room(), 1);
    ahead.learn(0);
    assert_eq!((parties[0].room(), ahead.bound(), ahead.largest()), (1, 1000, 1001));
}

#[test]
fn the_default_bound_is_a_quarter_of_the_memory() {
    let ahead = Arc::new(BytesAhead::new(None));
    let party = ahead.join();
    assert_eq!(party.room(), usize::MAX);
    assert!(ahead.bound().abs_diff(container_bytes() / 4) <= container_bytes() / 100);
    ahead.learn(ahead.bound() / 5);
    assert_eq!(party.room(), 5);
}

#[test]
fn the_high_water_mark_stays() {
    let ahead = Arc::new(BytesAhead::new(None));
    let held = [ahead.hold(10), ahead.hold(20)];
    assert_eq!((ahead.batches(), ahead.bytes(), ahead.high_water(), held[1].bytes()), (2, 30, 30, 20));
    drop(held);
    drop(ahead.hold(5));
    assert_eq!((ahead.batches(), ahead.bytes(), ahead.high_water()), (0, 0, 30));
}

#[test]
fn surplus_free_slots_are_released() {
    let slab = Slab::new(100).with_free_bytes(3 * MIB);
    let leases: Vec<_> = (0..10).map(|_| slab.lease(MIB).unwrap()).collect();
    assert_eq!(slab.mapped_bytes(), 10 * MIB);
    drop(leases);
    assert_eq!(slab.mapped_bytes(), 3 * MIB);
    let one = Slab::new(100).with_free_bytes(1);
    drop((one.lease(2 * MIB).unwrap(), one.lease(2 * MIB).unwrap()));
    assert_eq!(one.mapped_bytes(), 2 * MIB, "one is kept for the next batch");
}

#[test]
fn an_arena_keeps_a_bounded_amount_warm() {
    let arena = Arena::new(Arc::new(Segment::shared(64 * MIB).unwrap().0), 0..64 * MIB, 100);
    let leases = || (0..8).map(|_| arena.grant(2 * MIB).unwrap().into_lease(0, 2 * MIB)).collect::<Vec<_>>();
    drop(leases());
    assert_eq!(arena.warm_bytes(), 16 * MIB);
    arena.limit_free_bytes(5 * MIB);
    drop(leases());
    assert!(arena.warm_bytes() <= 5 * MIB, "{} bytes", arena.warm_bytes());
}
