//! A user's own threads, and their tasks when an epoch is dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};
use sluicegate::internal::{Fetch, FetchSamples, IndexBatch, Pool, Prefetch, Slab};
use sluicegate::{DataLoader, DataLoaderBuilder, Dataset, Delivery, Error, Result, SampleWriter, Schema, StackSamples};

use crate::datasets::Numbers;

const LONG: Duration = Duration::from_secs(30);

/// Numbers that take a while to read, and a record of the threads that read them.
struct Slow {
    numbers: Numbers,
    inside: AtomicUsize,
    begun: AtomicUsize,
    threads: Mutex<Vec<String>>,
}

impl Slow {
    fn new(len: usize) -> Arc<Self> {
        let (inside, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { numbers: Numbers::new(len), inside, begun, threads: Mutex::default() })
    }
}

impl Dataset for Slow {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn schema(&self) -> &Schema {
        self.numbers.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.threads.lock().unwrap().push(thread::current().name().unwrap_or_default().to_owned());
        thread::sleep(Duration::from_millis(2));
        let outcome = self.numbers.read(index, into);
        self.inside.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

fn pool(threads: usize) -> Arc<ThreadPool> {
    let name = |thread| format!("theirs-{thread}");
    Arc::new(ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().unwrap())
}

fn loader(dataset: &Arc<Slow>, pool: &Arc<ThreadPool>) -> DataLoaderBuilder {
    DataLoader::builder(Arc::clone(dataset)).batch_size(2).pool(Arc::clone(pool))
}

fn values(loader: &DataLoader) -> Vec<u64> {
    let batches = loader.epoch(0).unwrap();
    batches.flat_map(|batch| batch.unwrap().field_at(0).unwrap().view::<u64>().unwrap().to_vec()).collect()
}

#[test]
fn batches_are_fetched_on_the_threads_that_were_given() {
    let (dataset, theirs) = (Slow::new(24), pool(2));
    assert!(values(&loader(&dataset, &theirs).build().unwrap()).into_iter().eq(0..24));
    let names = dataset.threads.lock().unwrap();
    assert!(names.iter().all(|name| name.starts_with("theirs-")), "{names:?}");
    let refused = loader(&dataset, &theirs).threads(2).build().err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "pool", .. }), "{refused}");
}

#[test]
fn a_consumer_on_the_only_pool_thread_does_not_deadlock() {
    for (delivery, taken) in [(Delivery::InOrder, 12), (Delivery::AsCompleted, 12), (Delivery::InOrder, 3)] {
        let (dataset, theirs) = (Slow::new(24), pool(1));
        let loader = loader(&dataset, &theirs).prefetch(3).delivery(delivery).build().unwrap();
        let (sender, receiver) = channel();
        // Dropped there too, whether or not it was read to its end.
        theirs.spawn(move || sender.send(loader.epoch(0).unwrap().take(taken).count()).unwrap());
        assert_eq!(receiver.recv_timeout(LONG), Ok(taken), "{delivery:?}");
    }
}

#[test]
fn a_consumer_on_one_of_two_threads_gets_all_batches_in_order() {
    let (dataset, theirs) = (Slow::new(24), pool(2));
    let loader = loader(&dataset, &theirs).build().unwrap();
    let (sender, receiver) = channel();
    theirs.spawn(move || sender.send(values(&loader)).unwrap());
    assert!(receiver.recv_timeout(LONG).unwrap().into_iter().eq(0..24));
}

#[test]
fn dropping_an_epoch_cancels_what_has_not_begun_and_joins_what_runs() {
    for own in [true, false] {
        let dataset = Slow::new(1000);
        let builder = DataLoader::builder(Arc::clone(&dataset)).batch_size(4).prefetch(20);
        let builder = if own { builder.threads(2) } else { builder.pool(pool(2)) };
        let loader = builder.build().unwrap();
        for _ in 0..5 {
            let mut batches = loader.epoch(0).unwrap();
            batches.next().unwrap().unwrap();
            drop(batches);
            assert_eq!(dataset.inside.load(Ordering::SeqCst), 0, "a batch is still read");
            let begun = dataset.begun.load(Ordering::SeqCst);
            thread::sleep(Duration::from_millis(8));
            assert_eq!(dataset.begun.load(Ordering::SeqCst), begun, "another batch was begun");
        }
        let left: Vec<_> = loader.epoch(1).unwrap().take(3).map(Result::unwrap).collect();
        assert_eq!(left.len(), 3, "the threads continue with other epochs");
    }
}

/// Fetches, and drops a window (possibly its own) when told to.
struct Dropping {
    fetch: FetchSamples,
    window: Arc<Mutex<Option<Prefetch<'static>>>>,
}

impl Fetch for Dropping {
    fn fetch(&self, batch: &IndexBatch) -> Result<sluicegate::Batch> {
        if let Some(mut window) = self.window.lock().unwrap().take() {
            window.join();
        }
        self.fetch.fetch(batch)
    }
}

#[test]
fn a_fetch_that_joins_its_own_window_does_not_wait_for_itself() {
    let window = Arc::new(Mutex::new(None));
    let fetch = FetchSamples::new(Arc::new(Numbers::new(9)), Arc::new(StackSamples), Arc::new(Slab::new(2)));
    let fetch = Arc::new(Dropping { fetch, window: Arc::clone(&window) });
    let watch = Arc::downgrade(&fetch);
    let mut own = Prefetch::new(fetch, Some(Arc::new(Pool::of(pool(1)))), Delivery::InOrder);
    {
        let mut window = window.lock().unwrap();
        own.push(IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![1], draws: None }).unwrap();
        *window = Some(own);
    }
    let begin = std::time::Instant::now();
    while watch.strong_count() > 0 {
        assert!(begin.elapsed() < LONG, "the fetch waits for itself");
        thread::sleep(Duration::from_millis(1));
    }
}
