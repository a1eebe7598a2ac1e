//! The pipeline: which batches reach the consumer in which order, and on which thread they were fetched.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::internal::{Fetch, FetchSamples, IndexBatch, Pool, Prefetch, Slab};
use sluicegate::{Batch, Delivery, Error, Result, StackSamples, sample_key};

use crate::datasets::Numbers;
use crate::own_process::{NO_THREADS, alone, threads_named};

const LONG: Duration = Duration::from_secs(30);
/// Longer than batches that are fetched on the calling thread take.
const WORTH_A_THREAD: Duration = Duration::from_micros(200);

/// Fetches numbers, after running `hook`.
struct Hooked<H> {
    fetch: FetchSamples,
    hook: H,
}

impl<H: Fn(&IndexBatch) -> Result<()> + Send + Sync> Fetch for Hooked<H> {
    fn fetch(&self, batch: &IndexBatch) -> Result<Batch> {
        (self.hook)(batch)?;
        self.fetch.fetch(batch)
    }
}

fn hooked(hook: impl Fn(&IndexBatch) -> Result<()> + Send + Sync + 'static) -> Arc<dyn Fetch> {
    let fetch = FetchSamples::new(Arc::new(Numbers::new(1_000_000)), Arc::new(StackSamples), Arc::new(Slab::new(8)));
    Arc::new(Hooked { fetch, hook })
}

fn window(threads: usize, delivery: Delivery, fetch: Arc<dyn Fetch>) -> Prefetch<'static> {
    Prefetch::new(fetch, (threads > 0).then(|| Arc::new(Pool::new(threads))), delivery)
}

fn ask(window: &mut Prefetch, batch: u64) {
    let indices = vec![batch as usize, batch as usize + 7];
    window.push(IndexBatch { epoch: 3, batch_in_epoch: batch, indices, draws: None }).unwrap();
}

/// Takes a batch that must be available and valid, and returns its number.
fn take(window: &mut Prefetch) -> u64 {
    let (asked, batch) = window.pop(LONG).expect("a batch comes in time");
    let batch = batch.unwrap();
    assert_eq!(batch.to_vec::<u64>(0).unwrap(), [asked.batch_in_epoch, asked.batch_in_epoch + 7]);
    assert_eq!((asked.epoch, asked.indices.len(), batch.samples()), (3, 2, 2));
    asked.batch_in_epoch
}

/// Runs `batches` through a window with `ahead` of them in flight, and returns the order in which they came.
fn run(window: &mut Prefetch, batches: u64, ahead: u64) -> Vec<u64> {
    run_from(window, 0..batches, ahead)
}

fn run_from(window: &mut Prefetch, batches: Range<u64>, ahead: u64) -> Vec<u64> {
    let mut taken = Vec::new();
    for batch in batches.clone() {
        ask(window, batch);
        if batch >= batches.start + ahead {
            taken.push(take(window));
        }
    }
    while !window.is_empty() {
        taken.push(take(window));
    }
    taken
}

/// A door that stays closed until a thread opens it.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_timeout_while(open, LONG, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

fn jitter(batch: &IndexBatch, longest: Duration) {
    thread::sleep(longest.mul_f64((sample_key(7, 0, batch.batch_in_epoch) % 1000) as f64 / 1000.0));
}

#[test]
fn batches_stay_in_order_whatever_their_durations() {
    for threads in 0..=4 {
        let fetch = hooked(|batch| {
            jitter(batch, Duration::from_millis(1));
            Ok(())
        });
        let mut window = window(threads, Delivery::InOrder, fetch);
        assert!(run(&mut window, 150, 8).into_iter().eq(0..150), "{threads} threads");
        assert!(window.pop(LONG).is_none(), "an empty window has nothing to wait for");
    }
}

#[test]
fn as_completed_delivers_each_batch_once() {
    for threads in 0..=4 {
        let fetch = hooked(|batch| {
            jitter(batch, Duration::from_millis(1));
            Ok(())
        });
        let mut taken = run(&mut window(threads, Delivery::AsCompleted, fetch), 150, 8);
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..150), "{threads} threads");
    }
}

#[test]
fn a_slow_batch_does_not_delay_completed_ones() {
    for others in [Duration::ZERO, WORTH_A_THREAD] {
        let gate = Arc::new(Gate::default());
        let slow = Arc::clone(&gate);
        let fetch = hooked(move |batch| {
            if batch.batch_in_epoch == 0 {
                slow.pass()
            } else {
                thread::sleep(others)
            }
            Ok(())
        });
        let mut window = window(2, Delivery::AsCompleted, fetch);
        let begin = Instant::now();
        (0..4).for_each(|batch| ask(&mut window, batch));
        let mut taken = Vec::new();
        for batch in 4..40 {
            taken.push(take(&mut window));
            ask(&mut window, batch);
        }
        taken.extend((0..3).map(|_| take(&mut window)));
        assert!(begin.elapsed() < LONG / 2, "the others waited for the slow one (they take {others:?} each)");
        taken.sort_unstable();
        assert!(taken.into_iter().eq(1..40), "all but the slow one");
        assert!(window.pop(Duration::from_millis(5)).is_none());
        gate.open();
        assert_eq!(take(&mut window), 0);
    }
}

#[test]
fn a_panic_and_an_error_are_of_their_batch_alone() {
    let slowly = || thread::sleep(Duration::from_micros(10));
    let kinds: [(usize, Delivery, fn()); 4] = [
        (0, Delivery::InOrder, slowly),
        (2, Delivery::InOrder, slowly),
        (2, Delivery::InOrder, work_a_little),
        (2, Delivery::AsCompleted, slowly),
    ];
    for (threads, delivery, work) in kinds {
        let fetch = hooked(move |batch| {
            work();
            match batch.batch_in_epoch {
                3 => panic!("index {} is cursed", batch.indices[0]),
                4 => std::panic::panic_any(42),
                5 => Err(Error::User("no such file".into())),
                _ => Ok(()),
            }
        });
        let mut window = window(threads, delivery, fetch);
        // So that their duration is known.
        run_from(&mut window, 100..120, 4);
        (0..10).for_each(|batch| ask(&mut window, batch));
        let mut messages: Vec<_> = (0..10)
            .map(|_| {
                let (asked, batch) = window.pop(LONG).unwrap();
                (asked.batch_in_epoch, batch.map(|_| ()).map_err(|error| error.to_string()))
            })
            .collect();
        messages.sort();
        for (batch, outcome) in messages {
            match batch {
                3 => assert!(outcome.unwrap_err().contains("panicked: index 3 is cursed")),
                4 => assert!(outcome.unwrap_err().contains("panicked: no message")),
                5 => assert_eq!(outcome.unwrap_err(), "no such file"),
                _ => outcome.unwrap(),
            }
        }
    }
}

#[test]
fn waiting_can_continue_after_a_timeout() {
    for delivery in [Delivery::InOrder, Delivery::AsCompleted] {
        let gate = Arc::new(Gate::default());
        let slow = Arc::clone(&gate);
        let mut window = window(
            1,
            delivery,
            hooked(move |_| {
                slow.pass();
                Ok(())
            }),
        );
        ask(&mut window, 0);
        for patience in [Duration::ZERO, Duration::from_millis(5)] {
            assert!(window.pop(patience).is_none());
            assert_eq!(window.len(), 1, "the batch stays");
        }
        gate.open();
        let (asked, _) = window.pop(Duration::MAX).expect("the longest timeout is too long for the clock");
        assert_eq!((asked.batch_in_epoch, window.len()), (0, 0));
    }
}

#[test]
fn dropping_a_window_waits_for_nothing_and_leaves_nothing() {
    let gate = Arc::new(Gate::default());
    let started = Arc::new(AtomicUsize::new(0));
    let (slow, count) = (Arc::clone(&gate), Arc::clone(&started));
    let fetch = hooked(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        slow.pass();
        Ok(())
    });
    let watch: Weak<dyn Fetch> = Arc::downgrade(&fetch);
    let mut window = window(2, Delivery::InOrder, fetch);
    (0..20).for_each(|batch| ask(&mut window, batch));
    soon(|| started.load(Ordering::SeqCst) == 2);
    let begin = Instant::now();
    drop(window);
    assert!(begin.elapsed() < LONG / 2, "the drop waited for the fetches");
    gate.open();
    soon(|| watch.strong_count() == 0);
    assert_eq!(started.load(Ordering::SeqCst), 2, "what had not begun does not begin");
}

fn soon(reached: impl Fn() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < LONG, "not reached in time");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns, for each of 200 batches, if it was fetched on a pool thread, with two threads and batches that take `each`.
fn on_the_pool(each: Duration) -> Vec<bool> {
    let names = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&names);
    let fetch = hooked(move |_| {
        let name = thread::current().name().unwrap_or_default().to_owned();
        log.lock().unwrap().push(name.starts_with("sluice-fetch-"));
        thread::sleep(each);
        Ok(())
    });
    run(&mut window(2, Delivery::InOrder, fetch), 200, 4);
    let names = names.lock().unwrap();
    names.clone()
}

#[test]
fn only_expensive_batches_go_to_threads() {
    assert!(on_the_pool(WORTH_A_THREAD).iter().all(|on_the_pool| *on_the_pool));
    // A preempted fetch looks slow; on a busy machine that may happen more than once.
    let here = || on_the_pool(Duration::ZERO).iter().filter(|on_the_pool| !**on_the_pool).count();
    assert!((0..10).any(|_| here() > 150), "tiny batches go to threads");
}

/// Works for about as long as waking a thread takes: such batches are fetched by whichever thread is awake.
fn work_a_little() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(20) {
        std::hint::spin_loop();
    }
}

#[test]
fn medium_batches_are_fetched_by_threads_that_are_awake() {
    if thread::available_parallelism().map_or(1, |processors| processors.get()) == 1 {
        return; // the consumer has the only processor
    }
    let names = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&names);
    let fetch = hooked(move |batch| {
        let is_here = !thread::current().name().unwrap_or_default().starts_with("sluice-fetch-");
        log.lock().unwrap().push((batch.batch_in_epoch, is_here));
        work_a_little();
        Ok(())
    });
    let mut window = window(2, Delivery::InOrder, fetch);
    // Durations are measured, and on a busy machine they exceed the actual work: both outcomes are seen sooner or
    // later.
    for round in 1..=50 {
        assert!(run(&mut window, 200, 4).into_iter().eq(0..200));
        let mut fetched = std::mem::take(&mut *names.lock().unwrap());
        let here = fetched.iter().filter(|(_, is_here)| *is_here).count();
        fetched.sort_unstable();
        assert!(fetched.iter().map(|(batch, _)| *batch).eq(0..200), "each is fetched once");
        if (20..180).contains(&here) {
            return;
        }
        assert!(round < 50, "{here} of 200 batches were fetched by the consumer");
    }
}

#[test]
fn a_window_that_was_joined_runs_nothing_and_can_be_used_again() {
    for work in [|| (), work_a_little, || thread::sleep(WORTH_A_THREAD)] {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let fetch = hooked(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            work();
            Ok(())
        });
        let mut window = window(2, Delivery::InOrder, fetch);
        for batches in 40..80 {
            for batch in 0..batches {
                ask(&mut window, batch);
                if batch >= 8 {
                    assert_eq!(take(&mut window), batch - 8);
                }
            }
            window.join();
            let all = begun.swap(0, Ordering::SeqCst);
            assert!(window.is_empty() && all >= (batches - 8) as usize && all <= batches as usize, "{all}");
            thread::yield_now();
            assert_eq!(begun.load(Ordering::SeqCst), 0, "what was pushed is forgotten");
        }
    }
}

#[test]
fn no_thread_is_started_before_the_first_push() {
    alone("pipeline::no_thread_is_started_before_the_first_push", "", || {
        let pool = Arc::new(Pool::new(3));
        let mut window = Prefetch::new(hooked(|_| Ok(())), Some(Arc::clone(&pool)), Delivery::InOrder);
        assert!(window.pop(LONG).is_none());
        assert_eq!((pool.threads(), threads_named("sluice-fetch-")), (3, 0));
        ask(&mut window, 0);
        assert_eq!(take(&mut window), 0);
        soon(|| threads_named("sluice-fetch-") == 3);
        drop((window, pool));
        soon(|| threads_named("sluice-fetch-") == 0);
    });
}

#[test]
fn failing_to_start_threads_leaves_the_window_unchanged() {
    alone("pipeline::failing_to_start_threads_leaves_the_window_unchanged", NO_THREADS, || {
        let mut window = window(2, Delivery::InOrder, hooked(|_| Ok(())));
        let refused =
            window.push(IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![1], draws: None }).unwrap_err();
        assert!(matches!(refused, Error::Threads { threads: 2, .. }), "{refused}");
        assert!(window.is_empty() && window.pop(LONG).is_none());
    });
}

#[test]
fn ten_thousand_batches_come_through() {
    for delivery in [Delivery::InOrder, Delivery::AsCompleted] {
        // Tiny, worth an awake thread, or worth waking one, in turn: batches change categories all the time.
        let fetch = hooked(|batch| {
            match batch.batch_in_epoch / 50 % 3 {
                0 => jitter(batch, Duration::from_micros(150)),
                1 => work_a_little(),
                _ => {}
            }
            Ok(())
        });
        let mut taken = run(&mut window(3, delivery, fetch), 5_000, 9);
        if delivery == Delivery::AsCompleted {
            taken.sort_unstable();
        }
        assert!(taken.into_iter().eq(0..5_000));
    }
}
