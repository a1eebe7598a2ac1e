//! States of passes over streams: the rest comes unchanged, shuffled or not, from any batch on, in batches of any size.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::StreamSplit;
use sluicegate::{
    BatchLayout, BufferBound, Collate, Error, IterableDatasetExt, LastBatch, LoaderState, Result, Schema, Sizes,
    StreamBatches, StreamDataset, StreamFormat, StreamPart, StreamPosition, StreamSource, StreamState,
};
use tempfile::TempDir;

/// Writes lines with the numbers below `len`, of different lengths.
fn numbers(folder: &Path, len: u64) -> StreamDataset {
    let path = folder.join("numbers.jsonl");
    let line = |number: u64| format!("{:>width$}\n", number, width = 1 + (number * number % 50) as usize);
    fs::write(&path, (0..len).map(line).collect::<String>()).unwrap();
    StreamDataset::new(vec![StreamSource::Path(path)], StreamFormat::json_lines(None))
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
    fn a_stream_resumes_from_any_batch(
        len in prop_oneof![0_u64..200, 2000_u64..4000],
        bound in bound(),
        (seed, epoch) in (any::<u64>(), 0_u64..3),
        (batch_size, other_size) in (1_usize..300, 1_usize..300),
        split in prop::sample::select(vec![(0, 1, 1), (1, 3, 1), (0, 2, 3)]),
        last_batch in prop::sample::select(vec![LastBatch::Keep, LastBatch::Drop]),
        left_at in 0_usize..12,
    ) {
        let folder = TempDir::new().unwrap();
        let dataset = numbers(folder.path(), len);
        let (rank, world_size, num_workers) = split;
        let split = StreamSplit { rank, world_size, num_workers, run: 2 };
        let part = StreamPart { split, worker: num_workers - 1, consumed: Vec::new() };
        let begin = |batch_size| {
            let batches = StreamBatches::new(dataset.clone(), batch_size).unwrap();
            let batches = batches.part(part.clone());
            match bound {
                Some(bound) => batches.shuffle(bound, seed, epoch),
                None => batches,
            }
        };
        let expected = samples(begin(batch_size));
        let mut own: Vec<u64> = expected.clone();
        own.sort_unstable();
        prop_assert!(own.into_iter().eq((0..len).filter(|&number| part.owns(number))));

        let mut batches = begin(batch_size);
        let mut seen = samples(batches.by_ref().take(left_at));
        let state = through_json(&batches);
        // Once more from where it resumed, before and after a batch.
        let mut again = begin(other_size).resume(&state).unwrap();
        prop_assert_eq!(through_json(&again), state.clone());
        let begun = samples(again.by_ref().take(1));
        let last = begin(batch_size).resume(&through_json(&again)).unwrap();
        prop_assert_eq!(seen.iter().copied().chain(begun.iter().copied()).chain(samples(last)).collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(seen.iter().copied().chain(begun).chain(samples(again)).collect::<Vec<_>>(), expected.clone());
        seen.extend(samples(batches.by_ref()));
        prop_assert_eq!(seen, expected.clone());

        // Read to the end, nothing remains, even if a last batch was dropped.
        let mut whole = begin(batch_size).last_batch(last_batch);
        let dropped = if last_batch == LastBatch::Drop { expected.len() % batch_size } else { 0 };
        prop_assert_eq!(samples(whole.by_ref()), &expected[..expected.len() - dropped]);
        prop_assert!(samples(begin(1).resume(&through_json(&whole)).unwrap()).is_empty());
    }
}

#[test]
fn an_unshuffled_stream_that_grew_resumes() {
    for shuffled in [false, true] {
        let folder = TempDir::new().unwrap();
        let begin = |len| {
            let batches = StreamBatches::new(numbers(folder.path(), len), 64).unwrap();
            if shuffled { batches.shuffle(BufferBound::of_samples(100).unwrap(), 7, 0) } else { batches }
        };
        let mut batches = begin(3000);
        // The buffer sees the end before the consumer does.
        batches.by_ref().take(46).for_each(|batch| drop(batch.unwrap()));
        let state = through_json(&batches);
        let rest = samples(batches);
        assert_eq!(rest.len(), 56);
        let again = samples(begin(3010).resume(&state).unwrap());
        assert_eq!(again[..56], rest);
        assert_eq!(again.len(), if shuffled { 56 } else { 66 });
    }
}

#[test]
fn a_shuffled_pass_from_the_middle_resumes() {
    let folder = TempDir::new().unwrap();
    let mut first = StreamBatches::new(numbers(folder.path(), 3000), 64).unwrap();
    first.by_ref().take(10).for_each(|batch| drop(batch.unwrap()));
    let position = first.position().unwrap();
    let begin = |position| {
        let batches = StreamBatches::new(numbers(folder.path(), 3000), 64).unwrap().start_at(position);
        batches.shuffle(BufferBound::of_samples(100).unwrap(), 7, 0)
    };
    let mut batches = begin(position);
    batches.by_ref().take(20).for_each(|batch| drop(batch.unwrap()));
    let state = through_json(&batches);
    let rest = samples(batches);
    assert_eq!(rest.len(), 3000 - 30 * 64);
    assert_eq!(samples(begin(StreamPosition::default()).resume(&state).unwrap()), rest);
}

#[test]
fn adapted_streams_resume() {
    let folder = TempDir::new().unwrap();
    for shuffled in [false, true] {
        let begin = || {
            let lines = numbers(folder.path(), 3000).filter(|sample| Ok(sample.bytes(0).last() != Some(&b'7')));
            // Of 2,495 lines, those that do not end in 7.
            let batches = StreamBatches::new(lines.skip(5).take(2500), 64).unwrap();
            if shuffled { batches.shuffle(BufferBound::of_samples(100).unwrap(), 7, 0) } else { batches }
        };
        let mut batches = begin();
        batches.by_ref().take(25).for_each(|batch| drop(batch.unwrap()));
        let state = through_json(&batches);
        let rest = samples(batches);
        assert_eq!(rest.len(), 2245 - 25 * 64);
        assert_eq!(samples(begin().resume(&state).unwrap()), rest);
    }
}

/// A state of this version, and its expected continuation, which must never change.
#[test]
fn golden_states_resume() {
    let whole = r#""part":{"split":{"rank":0,"world_size":1,"num_workers":1,"run":1},"worker":0,"consumed":[]}"#;
    let begin = r#""position":{"ordinal":0,"source":0,"first_of_source":0,"offset":0}"#;
    let folder = TempDir::new().unwrap();
    let plain = || StreamBatches::new(numbers(folder.path(), 12), 4).unwrap();
    let in_order = format!(
        r#"{{"version":1,{whole},"position":{{"ordinal":4,"source":0,"first_of_source":0,"offset":22}},"shuffled":null}}"#
    );
    let shuffled = format!(
        r#"{{"version":1,{whole},{begin},"shuffled":{{"bound":{{"samples":5,"bytes":18446744073709551615}},"seed":7,"epoch":0,"since":0,"read":8,"held":[0,1,2,3],"has_ended":false}}}}"#
    );
    for (json, shuffle, expected) in [(in_order, false, ORDERED), (shuffled, true, SHUFFLED)] {
        let batches = plain();
        let begin = if shuffle { batches.shuffle(BufferBound::of_samples(5).unwrap(), 7, 0) } else { batches };
        let batches = begin.resume(&StreamState::from_json(&json).unwrap()).unwrap();
        assert_eq!(batches.state().unwrap().to_json(), json);
        assert_eq!(samples(batches), expected, "{json}");
    }
}

const ORDERED: [u64; 8] = [4, 5, 6, 7, 8, 9, 10, 11];
const SHUFFLED: [u64; 8] = [1, 0, 9, 3, 8, 10, 11, 2];

#[test]
fn resuming_rereads_little() {
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
    // The oldest held sample has waited for several lengths of the buffer.
    assert!(number("since") > 20_000, "{} of 30,499 are not read again", number("since"));
    assert_eq!(number("ordinal"), number("since"));
}

#[test]
fn states_of_a_different_order_or_modified_states_are_refused() {
    let folder = TempDir::new().unwrap();
    let of = |samples, seed, epoch| {
        let batches = StreamBatches::new(numbers(folder.path(), 100), 8).unwrap();
        batches.shuffle(BufferBound::of_samples(samples).unwrap(), seed, epoch)
    };
    let mut batches = of(20, 7, 0);
    batches.next().unwrap().unwrap();
    let state = through_json(&batches);
    let plain = || StreamBatches::new(numbers(folder.path(), 100), 8).unwrap();
    for other in [of(21, 7, 0), of(20, 8, 0), of(20, 7, 1), plain()] {
        let Err(Error::State { reason }) = other.resume(&state) else { panic!("it is of another order") };
        assert!(reason.contains("a buffer of 20 samples, seed 7, epoch 0, here"), "{reason}");
    }
    for (saved, here) in [((1, 2), (0, 2)), ((0, 2), (0, 1)), ((0, 2), (0, 3))] {
        for of in [&of as &dyn Fn(usize, u64, u64) -> StreamBatches, &|_, _, _| plain()] {
            let begin = |(rank, world_size)| of(20, 7, 0).part(StreamPart::of_rank(rank, world_size));
            let state = through_json(&begin(saved));
            let Err(Error::State { reason }) = begin(here).resume(&state) else { panic!("it is of another part") };
            assert!(reason.contains(&format!("rank {} of {}, worker 0 of 1", saved.0, saved.1)), "{reason}");
            assert!(reason.contains(&format!("here rank {} of {}, ", here.0, here.1)), "{reason}");
        }
    }
    // Set before resuming, or afterwards.
    let mut late = of(20, 7, 0).resume(&state).unwrap().part(StreamPart::of_rank(0, 2));
    assert!(matches!(late.next(), Some(Err(Error::State { .. }))) && late.next().is_none());
    assert_eq!(late.state(), Some(state.clone()));
    let mut late = plain().resume(&through_json(&plain())).unwrap().shuffle(BufferBound::of_samples(5).unwrap(), 7, 0);
    assert!(matches!(late.next(), Some(Err(Error::State { .. }))));
    let mut begun = of(20, 7, 0);
    begun.next().unwrap().unwrap();
    let Err(Error::State { reason }) = begun.resume(&state) else { panic!("it has begun") };
    assert!(reason.contains("make a new one"), "{reason}");
    let from_the_beginning = of(20, 7, 0).resume(&state).unwrap().start_at(StreamPosition::default());
    assert_eq!(samples(from_the_beginning).len(), 100);
    let Err(Error::State { reason }) = of(20, 7, 0).resume(&through_json(&plain())) else {
        panic!("it is not shuffled")
    };
    assert!(reason.contains("no shuffling"), "{reason}");

    let json = state.to_json();
    let held = json.split("\"held\":[").nth(1).unwrap().split(']').next().unwrap();
    let (first, rest) = held.split_once(',').unwrap();
    for changed in [
        json.replace("\"version\":1", "\"version\":2"),
        json.replace("\"since\":0", "\"since\":99"),
        json.replace("\"read\":27", "\"read\":18446744073709551615"),
        json.replace("\"ordinal\":0", "\"ordinal\":18446744073709551615"),
        json.replace("\"samples\":20", "\"samples\":0"),
        json.replace(held, &format!("28,{rest}")),
        json.replace(held, &format!("{},{rest}", rest.split(',').next().unwrap())),
        json.replace(held, &format!("-{first},{rest}")),
        json.replace("\"shuffled\"", "\"shuffle\""),
        json.replace("\"position\"", "\"place\""),
        json[1..].to_owned(),
    ] {
        assert!(changed != json);
        assert!(matches!(StreamState::from_json(&changed), Err(Error::State { .. })), "{changed}");
        assert!(serde_json::from_str::<StreamState>(&changed).is_err(), "{changed}");
    }
    let Err(Error::State { reason }) = LoaderState::from_json(&json) else { panic!("it is of a stream") };
    assert!(reason.contains("read it with StreamState"), "{reason}");
    let of_loader = r#"{"version":1,"epoch":3,"batches_received":0,"received_ahead":[],"position":0,
        "dataset_len":1000,"sampler":"SequentialSampler(len=1000)","batch_size":10,"rank":0,"world_size":2}"#;
    LoaderState::from_json(of_loader).unwrap();
    let Err(Error::State { reason }) = StreamState::from_json(of_loader) else { panic!("it is of a loader") };
    assert!(reason.contains("read it with LoaderState"), "{reason}");
    // One sample fewer than the buffer had read.
    let mut less = of(20, 7, 0).resume(&state).unwrap();
    fs::write(folder.path().join("numbers.jsonl"), (0..26).map(|number| format!("{number}\n")).collect::<String>())
        .unwrap();
    let Some(Err(Error::State { reason })) = less.next() else { panic!("the stream is shorter") };
    assert!(reason.contains("27 samples had been read"), "{reason}");
    assert!(less.next().is_none());
    assert_eq!(less.state(), Some(state), "nothing was lost");
}

#[test]
fn only_an_unshuffled_pass_has_a_state_after_an_error() {
    let of = |command: &str| {
        let lines = StreamDataset::new(vec![StreamSource::Command(command.into())], StreamFormat::json_lines(None));
        StreamBatches::new(lines.take(100), 4).unwrap()
    };
    for last_batch in [LastBatch::Keep, LastBatch::Drop] {
        let mut batches = of("seq 0 9; exit 7").last_batch(last_batch);
        assert!(batches.by_ref().any(|batch| batch.is_err()));
        let rest = samples(of("seq 0 12").resume(&through_json(&batches)).unwrap());
        let from = if last_batch == LastBatch::Keep { 10 } else { 8 };
        assert_eq!(rest, (from..=12).collect::<Vec<u64>>());
    }
    let mut batches = of("seq 0 9; exit 7").shuffle(BufferBound::of_samples(3).unwrap(), 7, 0);
    assert!(batches.by_ref().any(|batch| batch.is_err()));
    assert!(batches.state().is_none());
}

#[test]
fn a_stream_that_can_be_read_only_once_has_no_state() {
    let folder = TempDir::new().unwrap();
    numbers(folder.path(), 100);
    let open = || {
        let file = Arc::new(File::open(folder.path().join("numbers.jsonl")).unwrap().into());
        let source = StreamSource::Open(file, "numbers".into());
        StreamBatches::new(StreamDataset::new(vec![source], StreamFormat::json_lines(None)), 8).unwrap()
    };
    let mut batches = open();
    assert!(batches.state().is_none());
    batches.next().unwrap().unwrap();
    assert!(batches.state().is_none());
    let state = through_json(&StreamBatches::new(numbers(folder.path(), 100), 8).unwrap());
    let Err(Error::State { reason }) = open().resume(&state) else { panic!("what was read of it is gone") };
    assert!(reason.contains("only once"), "{reason}");
}

#[test]
fn a_stream_with_fewer_files_is_refused() {
    let lines = |of: &[&str]| {
        let sources = of.iter().map(|command| StreamSource::Command((*command).into())).collect();
        StreamBatches::new(StreamDataset::new(sources, StreamFormat::json_lines(None)), 4).unwrap()
    };
    let mut batches = lines(&["seq 0 5", "seq 6 9"]);
    batches.by_ref().take(2).for_each(|batch| drop(batch.unwrap()));
    let state = through_json(&batches);
    assert_eq!(samples(lines(&["seq 0 5", "seq 6 9"]).resume(&state).unwrap()), [8, 9]);
    let Some(Err(Error::State { reason })) = lines(&["seq 0 5"]).resume(&state).unwrap().next() else {
        panic!("the state is in the second")
    };
    assert!(reason.contains("source 2 of the stream, which now has only 1"), "{reason}");
    // An additional source comes next.
    let whole: Vec<u64> = samples(batches);
    assert_eq!(whole, [8, 9]);
    let mut over = lines(&["seq 0 5"]);
    assert_eq!(samples(over.by_ref()).len(), 6);
    assert_eq!(samples(lines(&["seq 0 5", "seq 6 9"]).resume(&through_json(&over)).unwrap()), [6, 7, 8, 9]);
}

#[test]
fn late_settings_and_invalid_parts_are_errors() {
    let begin = || {
        let lines = StreamDataset::new(vec![StreamSource::Command("seq 0 99".into())], StreamFormat::json_lines(None));
        let mut batches = StreamBatches::new(lines, 8).unwrap();
        batches.next().unwrap().unwrap();
        batches
    };
    for (expected, late) in [
        ("part", begin().part(StreamPart::of_rank(1, 2))),
        ("position", begin().start_at(StreamPosition::default())),
        ("shuffle", begin().shuffle(BufferBound::of_samples(5).unwrap(), 7, 0)),
        ("bytes_ahead", begin().bytes_ahead(1)),
    ] {
        let mut late = late;
        assert_eq!(late.state(), begin().state(), "it is where it was");
        let Some(Err(Error::InvalidArgument { argument, .. })) = late.next() else { panic!("{expected} is set late") };
        assert_eq!(argument, expected);
        assert!(late.next().is_none());
    }
    let split = StreamSplit { num_workers: 2, ..StreamSplit::WHOLE };
    for part in [StreamPart::of_rank(2, 2), StreamPart { split, worker: 2, consumed: Vec::new() }] {
        let lines = StreamDataset::new(Vec::new(), StreamFormat::json_lines(None));
        let Some(Err(error)) = StreamBatches::new(lines, 8).unwrap().part(part).next() else { panic!("accepted") };
        assert!(matches!(error, Error::InvalidArgument { argument: "part", .. }), "{error}");
        assert!(error.to_string().contains("2 of 2"), "{error}");
    }
}

#[test]
fn a_panic_of_a_collate_is_an_error_and_no_sample_is_lost() {
    struct Cursed;
    impl Collate for Cursed {
        fn layout(&self, _: &Schema, _: &Sizes) -> Result<BatchLayout> {
            panic!("no batch today")
        }
    }
    let begin = || {
        let lines = StreamDataset::new(vec![StreamSource::Command("seq 0 99".into())], StreamFormat::json_lines(None));
        StreamBatches::new(lines, 8).unwrap()
    };
    for shuffled in [false, true] {
        let batches = begin().collate(Arc::new(Cursed));
        let mut batches = if shuffled { batches.shuffle(BufferBound::of_samples(5).unwrap(), 7, 0) } else { batches };
        let Some(Err(Error::Panic { message, .. })) = batches.next() else { panic!("it panics") };
        assert_eq!(message, "no batch today");
        assert!(batches.next().is_none());
        assert_eq!(batches.state().is_none(), shuffled);
    }
}
