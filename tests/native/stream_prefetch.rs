//! Streams that are read ahead: only the timing changes, and dropping one stops its thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::{
    Advance, Error, IterableDataset, IterableDatasetExt, SampleBlock, StopSignal, StreamBatches, StreamPart,
    StreamPosition, TypedField,
};

use crate::own_process::{alone, threads_named};
use crate::stream_adaptor::{keeps_the_contract, lines, named, values};

#[test]
fn prefetching_does_not_change_a_stream() {
    for samples in [1, 3, 100] {
        let ahead = lines("seq 0 19").prefetch(samples).unwrap();
        assert!(values(keeps_the_contract(&ahead, (0..20).step_by(3))).into_iter().eq(0..20), "{samples}");
        assert!(ahead.is_repeatable());
        let odd = named("x", "seq 0 19").prefetch(2).unwrap().filter(|sample| Ok(sample.ordinal() % 2 == 1));
        let windows = odd.prefetch(samples).unwrap().skip(3).prefetch(1).unwrap();
        assert!(values(keeps_the_contract(&windows, 0..8)).into_iter().eq((3..20).step_by(2)), "{samples}");
    }
}

/// Counts the samples of an endless stream that pass through it.
fn counted(passed: &Arc<AtomicUsize>) -> impl IterableDataset + use<> {
    let passed = Arc::clone(passed);
    lines("yes 1").map(vec![TypedField::text("x")], move |sample, into| {
        passed.fetch_add(1, Ordering::SeqCst);
        into[0].extend(sample.bytes(0));
        Ok(())
    })
}

/// Waits for an effect of another thread.
fn until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(9));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn reading_ahead_stops_at_the_bound() {
    let passed = Arc::new(AtomicUsize::new(0));
    let stop = StopSignal::new().unwrap();
    let ahead = counted(&passed).prefetch(5).unwrap();
    let mut stream = ahead.stream(StreamPart::WHOLE, StreamPosition::default(), &stop).unwrap();
    let mut block = SampleBlock::new(1);
    for taken in 0..4 {
        until(|| passed.load(Ordering::SeqCst) == taken + 5);
        thread::sleep(Duration::from_millis(5));
        assert_eq!(passed.load(Ordering::SeqCst), taken + 5);
        assert!(!stream.would_wait());
        assert_eq!(stream.advance(&mut block).unwrap(), Advance::Sample);
    }
    drop(stream);
    assert!(!stop.is_set(), "others may read on");
}

#[test]
fn an_error_follows_the_samples_before_it() {
    let failing = lines("seq 0 5; exit 7").prefetch(3).unwrap();
    let stop = StopSignal::new().unwrap();
    let mut stream = failing.stream(StreamPart::WHOLE, StreamPosition::default(), &stop).unwrap();
    let mut block = SampleBlock::new(1);
    let error = loop {
        match stream.advance(&mut block) {
            Ok(advance) => assert_eq!(advance, Advance::Sample),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Process { .. }), "{error}");
    assert_eq!(block.len(), 6);
    assert_eq!(stream.advance(&mut block).unwrap(), Advance::End);
}

#[test]
fn dropping_a_pass_ends_its_waiting_thread() {
    alone("stream_prefetch::dropping_a_pass_ends_its_waiting_thread", "", || {
        let begin = Instant::now();
        let text = || vec![TypedField::text("x")];
        let stuck = lines("seq 0 3; exec sleep 1000").prefetch(9).unwrap();
        let full = lines("yes 1").prefetch(2).unwrap();
        let nested = lines("yes 1").prefetch(2).unwrap().map(text(), |_, _| Ok(())).prefetch(2).unwrap();
        for dataset in [Arc::new(stuck) as Arc<dyn IterableDataset>, Arc::new(full), Arc::new(nested)] {
            let stop = StopSignal::new().unwrap();
            let mut stream = dataset.stream(StreamPart::WHOLE, StreamPosition::default(), &stop).unwrap();
            assert_eq!(stream.advance(&mut SampleBlock::new(1)).unwrap(), Advance::Sample);
            assert!(threads_named("sluice-prefetch") > 0);
            drop(stream);
            until(|| threads_named("sluice-prefetch") == 0);
            // Or the opener tells it to stop, while it waits for samples.
            let mut stream = dataset.stream(StreamPart::WHOLE, StreamPosition::default(), &stop).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(20));
                    stop.set();
                });
                while matches!(stream.advance(&mut SampleBlock::new(1)), Ok(Advance::Sample)) {}
            });
            let mut batches = StreamBatches::new(Arc::clone(&dataset), 4).unwrap();
            assert!(batches.next().unwrap().is_ok());
        }
        assert!(begin.elapsed() < Duration::from_secs(5));
    });
}
