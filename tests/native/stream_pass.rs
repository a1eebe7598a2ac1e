//! One pass over a stream for several workers: every sample is read once, and no worker waits for another one forever.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sluicegate::internal::{ReadAhead, Slab, StreamPass, StreamSplit};
use sluicegate::{
    DType, Error, Field, IterableDataset, IterableDatasetExt, Result, StackSamples, StreamDataset, StreamFormat,
    StreamPart, StreamPosition, StreamSource, TypedField,
};
use tempfile::TempDir;

use crate::stream_adaptor::lines;

const LIMIT: Duration = Duration::from_secs(60);

fn worker(
    dataset: &Arc<dyn IterableDataset>,
    split: StreamSplit,
    worker: u64,
    bytes: usize,
    pass: &StreamPass,
) -> ReadAhead {
    let part = StreamPart { split, worker, consumed: Vec::new() };
    ReadAhead::shared(Arc::clone(dataset), part, StreamPosition::default(), bytes, pass)
}

/// Reads the rest of a worker's part, and returns its ordinals, and the error that ended it.
fn rest(ahead: &mut ReadAhead) -> (Vec<u64>, Option<Error>) {
    let mut ordinals = Vec::new();
    loop {
        let available = match ahead.wait(7, LIMIT) {
            Ok(available) => available.expect("in time").min(7),
            Err(error) => return (ordinals, Some(error)),
        };
        if available == 0 {
            return (ordinals, None);
        }
        let (_, positions) = ahead.batch(available, &StackSamples, &Slab::new(1)).unwrap();
        ordinals.extend(positions.iter().map(|position| position.ordinal - 1));
        ahead.take(available);
    }
}

fn owned(split: StreamSplit, worker: u64, samples: u64) -> Vec<u64> {
    let part = StreamPart { split, worker, consumed: Vec::new() };
    (0..samples).filter(|&ordinal| part.owns(ordinal)).collect()
}

/// The samples of a command that counts how many were made.
fn counted(command: &str, made: &Arc<AtomicUsize>) -> Arc<dyn IterableDataset> {
    let made = Arc::clone(made);
    Arc::new(lines(command).map(vec![TypedField::text("x")], move |sample, into| {
        made.fetch_add(1, Ordering::SeqCst);
        into[0].extend(sample.bytes(0));
        Ok(())
    }))
}

#[test]
fn every_sample_of_a_rank_is_made_once_for_all_workers() {
    for (world_size, num_workers, run) in [(1, 1, 1), (1, 3, 1), (2, 2, 5), (1, 2, 7)] {
        let made = Arc::new(AtomicUsize::new(0));
        let dataset = counted("seq 0 9999", &made);
        let split = StreamSplit { rank: 0, world_size, num_workers, run };
        let pass = StreamPass::new(num_workers as usize).unwrap();
        let mut workers: Vec<_> =
            (0..num_workers).map(|number| worker(&dataset, split, number, 1 << 20, &pass)).collect();
        thread::scope(|scope| {
            for (number, ahead) in workers.iter_mut().enumerate() {
                scope.spawn(move || {
                    let (ordinals, error) = rest(ahead);
                    assert!(error.is_none(), "{error:?}");
                    assert_eq!(ordinals, owned(split, number as u64, 10_000));
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst) as u64, 10_000 / world_size);
    }
}

#[test]
fn a_pass_reads_ahead_by_a_bounded_number_of_bytes() {
    let made = Arc::new(AtomicUsize::new(0));
    let (dataset, pass) = (counted("seq 0 99999", &made), StreamPass::new(1).unwrap());
    let mut only = worker(&dataset, StreamSplit::WHOLE, 0, 1000, &pass);
    assert!(only.wait(1, LIMIT).unwrap().is_some());
    // Long enough for all of the stream: an idle worker holds 1000 bytes and at most one more block.
    thread::sleep(Duration::from_millis(300));
    assert!(made.load(Ordering::SeqCst) < 10_000, "{} samples were made", made.load(Ordering::SeqCst));
    assert_eq!(rest(&mut only).0.len(), 100_000);
}

#[test]
fn a_slow_worker_continues_reading_on_its_own() {
    let split = StreamSplit { num_workers: 2, ..StreamSplit::WHOLE };
    let made = Arc::new(AtomicUsize::new(0));
    let (dataset, pass) = (counted("seq 0 49999", &made), StreamPass::new(2).unwrap());
    let [mut first, mut second] = [0, 1].map(|number| worker(&dataset, split, number, 1000, &pass));
    // All of one, and only then the other: at most a few blocks are kept for it.
    assert_eq!(rest(&mut first).0, owned(split, 0, 50_000));
    assert_eq!(rest(&mut second).0, owned(split, 1, 50_000));
    assert!(made.load(Ordering::SeqCst) > 60_000);
}

#[test]
fn absent_workers_are_not_waited_for() {
    let split = StreamSplit { num_workers: 3, ..StreamSplit::WHOLE };
    let (dataset, pass) = (Arc::new(lines("seq 0 99")) as Arc<dyn IterableDataset>, StreamPass::new(3).unwrap());
    let mut first = worker(&dataset, split, 0, 1 << 20, &pass);
    drop(worker(&dataset, split, 1, 1 << 20, &pass));
    assert!(matches!(first.wait(1, Duration::from_millis(20)), Ok(None)));
    pass.arrive(2);
    assert_eq!(rest(&mut first).0, owned(split, 0, 100));
    // Too late to share.
    assert_eq!(rest(&mut worker(&dataset, split, 2, 1 << 20, &pass)).0, owned(split, 2, 100));
}

#[test]
fn closing_a_pass_ends_waits() {
    let split = StreamSplit { num_workers: 2, ..StreamSplit::WHOLE };
    let dataset = Arc::new(lines("echo 1; exec sleep 1000")) as Arc<dyn IterableDataset>;
    let pass = StreamPass::new(2).unwrap();
    let [mut first, second] = [0, 1].map(|number| worker(&dataset, split, number, 1 << 20, &pass));
    thread::scope(|scope| {
        let waiting = scope.spawn(move || first.wait(5, LIMIT));
        thread::sleep(Duration::from_millis(50));
        pass.close();
        assert!(waiting.join().unwrap().is_err());
    });
    drop(second);
}

#[test]
fn damage_fails_its_owner_and_an_unreadable_rest_fails_all() -> Result<()> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    let line = |number: u64| if number == 5 { "{\n".to_owned() } else { format!("{{\"x\": {number}}}\n") };
    fs::write(&path, (0..40).map(line).collect::<String>()).unwrap();
    let fields = vec![TypedField::number(Field::new("x", DType::Int64, []))?];
    let sources = vec![StreamSource::Path(path), StreamSource::Path(folder.path().join("missing"))];
    let dataset = StreamDataset::new(sources, StreamFormat::json_lines(Some(fields)));
    let dataset = Arc::new(dataset) as Arc<dyn IterableDataset>;
    let split = StreamSplit { num_workers: 2, ..StreamSplit::WHOLE };
    let alone: Vec<_> = (0..2)
        .map(|worker| {
            let part = StreamPart { split, worker, consumed: Vec::new() };
            rest(&mut ReadAhead::new(Arc::clone(&dataset), part, StreamPosition::default(), 1 << 20))
        })
        .collect();
    let pass = StreamPass::new(2)?;
    let [mut first, mut second] = [0, 1].map(|number| worker(&dataset, split, number, 1 << 20, &pass));
    for (ahead, (ordinals, error)) in [&mut first, &mut second].into_iter().zip(alone) {
        let (found, failure) = rest(ahead);
        assert_eq!((found, failure.map(|error| error.to_string())), (ordinals, error.map(|error| error.to_string())));
    }
    Ok(())
}
