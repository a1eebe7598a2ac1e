//! An epoch as a stream: woken by the fetching thread, and never polled in between.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures_core::{FusedStream, Stream};
use sluicegate::{
    BatchStream, DataLoader, Dataset, Delivery, Error, ItemDatasetExt, ItemLoader, Result, SampleWriter, Schema,
};

use crate::datasets::Numbers;

/// Numbers, each of which takes a while to read; number 9 cannot be read.
struct Slow(Numbers);

impl Dataset for Slow {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        thread::sleep(Duration::from_micros(400));
        match index {
            9 => Err(Error::User("nine".into())),
            _ => self.0.read(index, into),
        }
    }
}

struct Unpark(Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// Returns everything that a stream yields, as (samples or error), with the number of polls and of wakes.
fn drive(stream: BatchStream<'_>) -> (Vec<std::result::Result<Vec<u64>, String>>, usize, usize) {
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Arc::clone(&unpark).into();
    let (mut context, mut found, mut polls) = (Context::from_waker(&waker), Vec::new(), 0);
    let mut stream = pin!(stream);
    loop {
        polls += 1;
        let wakes = unpark.1.load(Ordering::SeqCst);
        match stream.as_mut().poll_next(&mut context) {
            Poll::Ready(Some(batch)) => {
                let values = batch.map(|batch| batch.to_vec(0).unwrap());
                found.push(values.map_err(|error| error.to_string()));
            }
            Poll::Ready(None) => break,
            // A park may end spuriously: poll again only after a wake.
            Poll::Pending => {
                let begin = Instant::now();
                while unpark.1.load(Ordering::SeqCst) == wakes {
                    assert!(begin.elapsed() < Duration::from_secs(30), "no thread was woken");
                    thread::park_timeout(Duration::from_secs(1));
                }
            }
        }
    }
    assert!(stream.is_terminated() && stream.as_mut().poll_next(&mut context).is_ready());
    (found, polls, unpark.1.load(Ordering::SeqCst))
}

fn loader(threads: usize, delivery: Delivery) -> DataLoader {
    let builder = DataLoader::builder(Slow(Numbers::new(30))).batch_size(4).shuffle(7).threads(threads);
    builder.delivery(delivery).build().unwrap()
}

#[test]
fn a_stream_has_the_batches_of_the_iterator() {
    let expected: Vec<_> = loader(0, Delivery::InOrder)
        .epoch(0)
        .unwrap()
        .map(|batch| batch.map(|batch| batch.to_vec::<u64>(0).unwrap()).map_err(|error| error.to_string()))
        .collect();
    for (threads, delivery) in
        [(0, Delivery::InOrder), (1, Delivery::InOrder), (3, Delivery::InOrder), (3, Delivery::AsCompleted)]
    {
        let stream = loader(threads, delivery).epoch(0).unwrap().into_stream();
        assert_eq!(stream.size_hint(), (8, Some(8)));
        let (mut found, polls, wakes) = drive(stream);
        let mut expected = expected.clone();
        if delivery == Delivery::AsCompleted {
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "{threads} threads, {delivery:?}");
        // One for each batch, one for the end, and at most one that waits for each batch.
        assert!(polls <= 8 + 1 + 8 && wakes <= 8, "{polls} polls and {wakes} wakes for 8 batches");
    }
}

#[test]
fn a_waiting_stream_can_be_dropped_and_resumed() {
    let loader = loader(2, Delivery::InOrder);
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Arc::clone(&unpark).into();
    let mut stream = loader.epoch(0).unwrap().into_stream();
    assert!(pin!(&mut stream).poll_next(&mut Context::from_waker(&waker)).is_pending());
    let state = stream.state();
    drop(stream);
    assert_eq!(drive(loader.resume(&state).unwrap().into_stream()).0.len(), 8);
}

#[test]
fn a_stream_on_the_only_pool_thread_does_not_deadlock() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let loader = DataLoader::builder(Slow(Numbers::new(8))).batch_size(2).pool(Arc::clone(&pool)).build().unwrap();
    let stream = loader.epoch(0).unwrap().into_stream();
    // An executor would park the thread that must fetch, so there must be nothing to wait for.
    let values = pool.install(move || {
        let (mut stream, mut values) = (pin!(stream), Vec::new());
        let mut context = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Some(batch)) = stream.as_mut().poll_next(&mut context) {
            values.extend(batch.unwrap().to_vec::<u64>(0).unwrap());
        }
        values
    });
    assert!(values.into_iter().eq(0..8));
}

#[test]
fn batches_of_items_are_a_stream_too() {
    let slow = (0..9).collect::<Vec<usize>>().map(|number| {
        thread::sleep(Duration::from_micros(400));
        Ok(number)
    });
    let loader = ItemLoader::builder(slow, |items: Vec<usize>| Ok(items)).batch_size(4).threads(2).build().unwrap();
    let mut stream = pin!(loader.epoch(0).unwrap().into_stream());
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Arc::clone(&unpark).into();
    let (mut found, mut pending) = (Vec::new(), 0);
    while found.len() < 3 {
        match stream.as_mut().poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(batch) => found.push(batch.unwrap().unwrap()),
            Poll::Pending => {
                pending += 1;
                thread::park_timeout(Duration::from_secs(30));
            }
        }
    }
    assert_eq!(found, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8]]);
    assert!(pending > 0 && stream.is_terminated(), "{pending}");
}
