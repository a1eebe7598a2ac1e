//! States of passes over streams: the rest comes as it would have come, shuffled or not, from any batch on, in batches of any size.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sluicegate::{
    BufferBound, Error, IterableDatasetExt, Result, StreamBatches, StreamDataset, StreamFormat, StreamPart,
    StreamSource, StreamState,
};
use tempfile::TempDir;

/// Lines with the numbers below `len`, of different lengths.
fn numbers(folder: &Path, len: u64) -> StreamDataset {
    let path = folder.join("numbers.jsonl");
    let line = |number: u64| format!("{:>width$}\n", number, width = 1 + (number * number % 50) as usize);
    fs::write(&path, (0..len).map(line).collect::<String>()).unwrap();
    StreamDataset::new(vec![StreamSource::Path(path)], StreamFormat::JsonLines(None))
}

fn samples(batches: impl Iterator<Item = Result<sluicegate::Batch>>) -> Vec<u64> {
    let numbers = batches.flat_map(|batch| {
        let batch = batch.unwrap();
        (0..batch.samples())
            .map(|row| str::from_utf8(batch.sample(0, row)).unwrap().trim().parse().unwrap())
            .collect::<Vec<u64>>()
    });
    numbers.collect()
}

fn through_json(batches: &StreamBatches) -> StreamState {
    let state = batches.state().unwrap();
    let read = StreamState::from_json(&state.to_json()).unwrap();
    assert_eq!(read, state);
    read
}

fn bound() -> impl Strategy<Value = Option<BufferBound>> {
    let samples = prop_oneof![1_usize..60, 1000..2000_usize, Just(usize::MAX)];
    let bytes = prop_oneof![1_u64..2000, Just(u64::MAX)];
    prop::option::of((samples, bytes).prop_map(|(samples, bytes)| BufferBound::new(samples, bytes).unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn the_rest_comes_from_any_batch_on(
        len in prop_oneof![0_u64..200, 2000_u64..4000],
        bound in bound(),
        (seed, epoch) in (any::<u64>(), 0_u64..3),
        (batch_size, other_size) in (1_usize..300, 1_usize..300),
        (rank, world_size) in prop::sample::select(vec![(0, 1), (1, 3)]),
        left_at in 0_usize..12,
    ) {
        let folder = TempDir::new().unwrap();
        let dataset = numbers(folder.path(), len);
        let begin = |batch_size| {
            let batches = StreamBatches::new(dataset.clone(), batch_size).unwrap();
            let batches = batches.part(StreamPart::of_rank(rank, world_size));
            match bound {
                Some(bound) => batches.shuffle(bound, seed, epoch),
                None => batches,
            }
        };
        let expected = samples(begin(batch_size));
        let mut own: Vec<u64> = expected.clone();
        own.sort_unstable();
        prop_assert!(own.into_iter().eq((0..len).filter(|number| number % world_size == rank)));

        let mut batches = begin(batch_size);
        let mut seen = samples(batches.by_ref().take(left_at));
        let state = through_json(&batches);
        // Once more from where it went on, before and behind a batch.
        let mut again = begin(other_size).resume(&state).unwrap();
        prop_assert_eq!(through_json(&again), state.clone());
        let begun = samples(again.by_ref().take(1));
        let last = begin(batch_size).resume(&through_json(&again)).unwrap();
        prop_assert_eq!(seen.iter().copied().chain(begun.iter().copied()).chain(samples(last)).collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(seen.iter().copied().chain(begun).chain(samples(again)).collect::<Vec<_>>(), expected.clone());
        seen.extend(samples(batches));
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn a_pass_that_is_over_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let begin = |shuffled: bool| {
        let batches = StreamBatches::new(numbers(folder.path(), 3000), 64).unwrap();
        if shuffled { batches.shuffle(BufferBound::of_samples(100).unwrap(), 7, 0) } else { batches }
    };
    for shuffled in [false, true] {
        let mut batches = begin(shuffled);
        assert_eq!(samples(batches.by_ref()).len(), 3000);
        assert!(samples(begin(shuffled).resume(&through_json(&batches)).unwrap()).is_empty());
    }
}

#[test]
fn the_places_that_are_kept_are_few_and_little_is_read_again() {
    let folder = TempDir::new().unwrap();
    let begin = || {
        let batches = StreamBatches::new(numbers(folder.path(), 40_000), 100).unwrap();
        batches.shuffle(BufferBound::of_samples(500).unwrap(), 7, 0)
    };
    let mut batches = begin();
    for _ in 0..300 {
        batches.next().unwrap().unwrap();
    }
    let state = batches.state().unwrap().to_json();
    let number = |name: &str| {
        let from = state.split(&format!("\"{name}\":")).nth(1).unwrap();
        from[..from.find([',', '}']).unwrap()].parse::<u64>().unwrap()
    };
    assert_eq!(number("read"), 30_000 + 499);
    // The oldest sample that is held has waited for some of the buffer's lengths.
    assert!(number("since") > 20_000, "{} of 30,499 are not read again", number("since"));
    assert_eq!(number("ordinal"), number("since"));
}

#[test]
fn a_state_of_another_order_or_that_was_changed_is_refused() {
    let folder = TempDir::new().unwrap();
    let of = |samples, seed, epoch| {
        let batches = StreamBatches::new(numbers(folder.path(), 100), 8).unwrap();
        batches.shuffle(BufferBound::of_samples(samples).unwrap(), seed, epoch)
    };
    let mut batches = of(20, 7, 0);
    batches.next().unwrap().unwrap();
    let state = through_json(&batches);
    let plain = || StreamBatches::new(numbers(folder.path(), 100), 8).unwrap();
    for other in [of(21, 7, 0), of(20, 8, 0), of(20, 7, 1), of(20, 7, 0).part(StreamPart::of_rank(1, 2)), plain()] {
        let Err(Error::State { reason }) = other.resume(&state) else { panic!("it is of another order") };
        assert!(reason.contains("seed: 7") && reason.contains("here with"), "{reason}");
    }
    let Err(Error::State { reason }) = of(20, 7, 0).resume(&through_json(&plain())) else {
        panic!("it is not shuffled")
    };
    assert!(reason.contains("no shuffling"), "{reason}");

    let json = state.to_json();
    let held = &json[json.find("\"held\":[").unwrap() + 8..json.find(']').unwrap()];
    let (first, rest) = held.split_once(',').unwrap();
    for changed in [
        json.replace("\"version\":1", "\"version\":2"),
        json.replace("\"since\":0", "\"since\":99"),
        json.replace(held, &format!("28,{rest}")),
        json.replace(held, &format!("{},{rest}", rest.split(',').next().unwrap())),
        json.replace(held, &format!("-{first},{rest}")),
        json.replace("\"shuffled\"", "\"shuffle\""),
        json.replace("\"position\"", "\"place\""),
        json[1..].to_owned(),
    ] {
        assert!(changed != json);
        assert!(matches!(StreamState::from_json(&changed), Err(Error::State { .. })), "{changed}");
    }
    // One sample less than the buffer had read.
    let mut less = of(20, 7, 0).resume(&state).unwrap();
    fs::write(folder.path().join("numbers.jsonl"), (0..26).map(|number| format!("{number}\n")).collect::<String>())
        .unwrap();
    let Some(Err(Error::State { reason })) = less.next() else { panic!("the stream is shorter") };
    assert!(reason.contains("27 samples had been read"), "{reason}");
    assert!(less.next().is_none());
}

#[test]
fn after_an_error_only_a_pass_that_is_not_shuffled_has_a_state() {
    let of = || {
        let source = StreamSource::Command("seq 0 9; exit 7".into());
        let lines = StreamDataset::new(vec![source], StreamFormat::JsonLines(None));
        StreamBatches::new(lines.take(100), 4).unwrap()
    };
    for shuffled in [false, true] {
        let mut batches = if shuffled { of().shuffle(BufferBound::of_samples(3).unwrap(), 7, 0) } else { of() };
        assert!(batches.by_ref().any(|batch| batch.is_err()));
        assert_eq!(batches.state().is_none(), shuffled);
    }
}
