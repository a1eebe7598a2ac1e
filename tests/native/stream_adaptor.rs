//! Adaptors of streams, and their batches: positions, parts, and ends are those of the stream.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluicegate::{
    Advance, BufferBound, DType, Damages, Error, Field, IterableDataset, IterableDatasetExt, LastBatch, Result,
    SampleBlock, SampleStream, StopSignal, StreamBatches, StreamDataset, StreamFormat, StreamPart, StreamPosition,
    StreamSource, TypedField,
};
use tempfile::TempDir;

pub(crate) type Read = Vec<(Vec<u8>, StreamPosition)>;

pub(crate) fn lines(command: &str) -> StreamDataset {
    StreamDataset::new(vec![StreamSource::Command(command.into())], StreamFormat::json_lines(None))
}

pub(crate) fn read(dataset: &dyn IterableDataset, part: StreamPart, from: StreamPosition) -> Result<Read> {
    let mut stream = dataset.stream(part, from, &StopSignal::new()?)?;
    let mut block = SampleBlock::new(stream.fields().len());
    while stream.advance(&mut block)? == Advance::Sample {}
    Ok((0..block.len()).map(|row| (block.value(0, row).to_vec(), block.position(row))).collect())
}

pub(crate) fn values(read: Read) -> Vec<u64> {
    let number = |(value, _): (Vec<u8>, _)| String::from_utf8(value).unwrap().parse().unwrap();
    read.into_iter().map(number).collect()
}

/// Returns the dataset of the numbers 0 to 19 in two files, adapted, with the remaining numbers.
fn adapted(folder: &TempDir) -> Vec<(&'static str, Box<dyn IterableDataset>, Vec<u64>)> {
    let sources = [0..12, 12..20].map(|numbers| {
        let path = folder.path().join(format!("{}.jsonl", numbers.start));
        fs::write(&path, numbers.map(|number: u64| format!("{number}\n")).collect::<String>()).unwrap();
        StreamSource::Path(path)
    });
    let all = || StreamDataset::new(sources.to_vec(), StreamFormat::json_lines(None));
    let tenfold = || {
        all().map(vec![TypedField::text("tenfold")], |sample, into| {
            assert_eq!(sample.ordinal().to_string().as_bytes(), sample.bytes(0));
            into[0].extend(sample.bytes(0));
            into[0].push(b'0');
            Ok(())
        })
    };
    let odd = || all().filter(|sample| Ok(sample.ordinal() % 2 == 1));
    vec![
        ("map", Box::new(tenfold()), (0..20).map(|number| number * 10).collect()),
        ("filter", Box::new(odd()), (0..20).filter(|number| number % 2 == 1).collect()),
        ("take", Box::new(all().take(15)), (0..15).collect()),
        ("take all", Box::new(all().take(100)), (0..20).collect()),
        ("take none", Box::new(all().take(0)), vec![]),
        ("skip", Box::new(all().skip(13)), (13..20).collect()),
        ("skip all", Box::new(all().skip(u64::MAX)), vec![]),
        ("all of them", Box::new(odd().take(15).skip(4)), vec![5, 7, 9, 11, 13]),
    ]
}

#[test]
fn parts_are_disjoint_and_resume_from_every_position() {
    let folder = TempDir::new().unwrap();
    for (name, dataset, expected) in adapted(&folder) {
        let (whole, start) = (|part| read(&*dataset, part, StreamPosition::default()).unwrap(), StreamPart::WHOLE);
        assert_eq!(values(whole(start.clone())), expected, "{name}");
        assert!(dataset.is_repeatable());
        let all = whole(start.clone());
        for (place, (_, position)) in all.iter().enumerate() {
            assert_eq!(read(&*dataset, start.clone(), *position).unwrap(), all[place + 1..], "{name}, {position:?}");
        }
        let mut of_ranks: Vec<u64> = (0..3).flat_map(|rank| values(whole(StreamPart::of_rank(rank, 3)))).collect();
        of_ranks.sort_unstable();
        assert_eq!(of_ranks, expected, "{name}");
    }
}

/// Returns the numbers of `seq` as texts, in a field `name`.
pub(crate) fn named(name: &'static str, command: &str) -> impl IterableDataset + use<> {
    lines(command).map(vec![TypedField::text(name)], |sample, into| {
        into[0].extend(sample.bytes(0));
        Ok(())
    })
}

/// Asserts that ranks have disjoint parts of the whole, and that every position of `places` leads to the rest.
pub(crate) fn keeps_the_contract(dataset: &dyn IterableDataset, places: impl Iterator<Item = usize>) -> Read {
    let all = read(dataset, StreamPart::WHOLE, StreamPosition::default()).unwrap();
    for place in places {
        assert_eq!(read(dataset, StreamPart::WHOLE, all[place].1).unwrap(), all[place + 1..], "from {place}");
    }
    let mut ranks: Read = (0..3)
        .flat_map(|rank| read(dataset, StreamPart::of_rank(rank, 3), StreamPosition::default()).unwrap())
        .collect();
    ranks.sort_by_key(|(_, position)| position.ordinal);
    assert_eq!(ranks, all);
    all
}

#[test]
fn streams_side_by_side_are_joined_by_ordinals() {
    let odd = |name, command: &str| named(name, command).filter(|sample| Ok(sample.ordinal() % 2 == 1));
    let both = odd("a", "seq 0 11").zip(named("b", "seq 100 108"));
    assert_eq!(values(keeps_the_contract(&both, 0..4)), [1, 3, 5, 7]);
    let stop = StopSignal::new().unwrap();
    let mut stream = both.stream(StreamPart::WHOLE, StreamPosition::default(), &stop).unwrap();
    let mut block = SampleBlock::new(2);
    assert_eq!(stream.advance(&mut block).unwrap(), Advance::Sample);
    assert_eq!((block.value(0, 0), block.value(1, 0)), (&b"1"[..], &b"101"[..]));
    let neither = named("a", "seq 9").filter(|sample| Ok(sample.ordinal() % 2 == 0)).zip(odd("b", "seq 9"));
    assert_eq!(read(&neither, StreamPart::WHOLE, StreamPosition::default()).unwrap(), []);
    let same = named("a", "seq 3").zip(named("a", "seq 3")).stream(StreamPart::WHOLE, StreamPosition::default(), &stop);
    assert!(same.err().unwrap().to_string().contains("`a`"));
}

#[test]
fn streams_are_mixed_in_proportion_and_each_in_its_order() {
    let mixed = lines("seq 0 9999").mix(vec![Arc::new(lines("seq 10000 10999"))], &[3.0, 1.0], 7).unwrap();
    let places = [0, 1, 500, 1022, 1023, 1024, 1025, 2000, 2048, 3500];
    let all = values(keeps_the_contract(&mixed, places.into_iter()));
    let of_first: Vec<u64> = all.iter().copied().filter(|&number| number < 10_000).collect();
    let of_second: Vec<u64> = all.iter().copied().filter(|&number| number >= 10_000).collect();
    assert!(of_first.iter().copied().eq(0..of_first.len() as u64));
    assert!(of_second.into_iter().eq(10_000..11_000), "it ends where the second does");
    assert!(of_first.len().abs_diff(3000) < 1024, "{} to 1000", of_first.len());
    let other = |seed| {
        let mixed = lines("seq 0 99").mix(vec![Arc::new(lines("seq 0 99"))], &[1.0, 1.0], seed).unwrap();
        values(read(&mixed, StreamPart::WHOLE, StreamPosition::default()).unwrap())
    };
    assert!(other(1) == other(1) && other(1) != other(2));
    // A sample that one part skips, the mixture skips too.
    let odd = lines("seq 0 9999").filter(|sample| Ok(sample.ordinal() % 2 == 1));
    let gaps = odd.mix(vec![Arc::new(lines("seq 10000 10999"))], &[3.0, 1.0], 7).unwrap();
    let found = values(keeps_the_contract(&gaps, [0, 700, 1500].into_iter()));
    assert_eq!(found, all.into_iter().filter(|number| *number >= 10_000 || number % 2 == 1).collect::<Vec<_>>());
}

/// Returns the numbers 0 to `end` - 1, each a byte.
fn bytes_to(end: u8) -> impl IterableDataset {
    let field = vec![TypedField::number(Field::new("x", DType::UInt8, [])).unwrap()];
    lines(&format!("seq 0 {}", end - 1)).map(field, |sample, into| {
        into[0].push(sample.ordinal() as u8);
        Ok(())
    })
}

fn window_values(read: Read) -> Vec<Vec<u8>> {
    read.into_iter().map(|(value, _)| value).collect()
}

#[test]
fn windows_of_a_stream_are_those_of_a_slice() {
    let all: Vec<u8> = (0..23).collect();
    for (len, stride) in [(1, 1), (4, 1), (4, 3), (3, 3), (2, 5), (23, 1), (24, 1)] {
        let windows = bytes_to(23).window(len, stride).unwrap();
        let expected: Vec<_> = all.windows(len).step_by(stride).map(<[u8]>::to_vec).collect();
        let places = (0..expected.len()).step_by(3);
        assert_eq!(window_values(keeps_the_contract(&windows, places)), expected, "{len}, {stride}");
    }
    let batches = bytes_to(23).batch(5).unwrap();
    let expected: Vec<_> = all.chunks_exact(5).map(<[u8]>::to_vec).collect();
    assert_eq!(window_values(keeps_the_contract(&batches, 0..4)), expected);
    let of_batches = bytes_to(23).batch(5).unwrap().window(2, 1).unwrap();
    let expected: Vec<_> = all[..20].windows(10).step_by(5).map(<[u8]>::to_vec).collect();
    assert_eq!(window_values(keeps_the_contract(&of_batches, 0..3)), expected);
}

#[test]
fn incomplete_windows_are_skipped() {
    let without = |missing: &'static [u64]| bytes_to(12).filter(move |sample| Ok(!missing.contains(&sample.ordinal())));
    for (len, stride, missing) in [(3, 2, &[5][..]), (3, 1, &[0, 4, 11]), (2, 4, &[2, 3, 8]), (4, 4, &[4, 5, 6, 7])] {
        let windows = without(missing).window(len, stride).unwrap();
        let all: Vec<u8> = (0..12).collect();
        let is_whole = |window: &&[u8]| !window.iter().any(|&number| missing.contains(&u64::from(number)));
        let expected: Vec<_> = all.windows(len).step_by(stride).filter(is_whole).map(<[u8]>::to_vec).collect();
        let places = 0..expected.len();
        assert_eq!(window_values(keeps_the_contract(&windows, places)), expected, "{len}, {stride}, {missing:?}");
    }
}

/// Bytes that can be read only once, one by one, by any reader.
struct Once(Arc<AtomicU64>);

struct OncePass(Arc<AtomicU64>, u64, Vec<TypedField>);

impl IterableDataset for Once {
    fn stream(&self, _: StreamPart, from: StreamPosition, _: &StopSignal) -> Result<Box<dyn SampleStream>> {
        let fields = vec![TypedField::plain(Field::new("x", DType::UInt8, []))];
        Ok(Box::new(OncePass(Arc::clone(&self.0), from.ordinal, fields)))
    }

    fn is_repeatable(&self) -> bool {
        false
    }
}

impl SampleStream for OncePass {
    fn fields(&self) -> &[TypedField] {
        &self.2
    }

    fn advance(&mut self, into: &mut SampleBlock) -> Result<Advance> {
        let next = self.0.fetch_add(1, Ordering::Relaxed) as u8;
        self.1 += 1;
        let position = StreamPosition { ordinal: self.1, ..StreamPosition::default() };
        into.push(&self.2, &[&[next]], position).map(|()| Advance::Sample)
    }
}

#[test]
fn windows_of_a_read_once_stream_resume_with_new_samples() {
    let windows = Once(Arc::default()).window(4, 2).unwrap();
    assert!(!windows.is_repeatable());
    let two_from = |from| {
        let mut block = SampleBlock::new(1);
        let mut stream = windows.stream(StreamPart::WHOLE, from, &StopSignal::new().unwrap()).unwrap();
        (0..2).for_each(|_| assert_eq!(stream.advance(&mut block).unwrap(), Advance::Sample));
        ([block.value(0, 0).to_vec(), block.value(0, 1).to_vec()], block.position(1))
    };
    let (first, position) = two_from(StreamPosition::default());
    assert_eq!((first, position.ordinal), ([vec![0, 1, 2, 3], vec![2, 3, 4, 5]], 2));
    // Two samples of the window from 4 on are missing.
    let (rest, position) = two_from(position);
    assert_eq!((rest, position.ordinal), ([vec![6, 7, 8, 9], vec![8, 9, 10, 11]], 5));
}

#[test]
fn invalid_windows_are_refused() {
    let refused = |error: Option<Error>, expected: &str| {
        let Some(Error::InvalidArgument { argument, reason }) = error else { panic!("{expected}: {error:?}") };
        assert_eq!(argument, expected, "{reason}");
    };
    refused(lines("seq 3").window(0, 1).err(), "len");
    refused(lines("seq 3").window(1, 0).err(), "stride");
    refused(lines("seq 3").batch(0).err(), "size");
    refused(lines("seq 3").prefetch(0).err(), "samples");
    let texts = lines("seq 3").window(2, 1).unwrap();
    refused(read(&texts, StreamPart::WHOLE, StreamPosition::default()).err(), "dataset");
}

#[test]
fn a_panic_in_a_closure_names_the_ordinal_of_its_sample() {
    let panics = |sample: &sluicegate::StreamSample<'_>| assert!(sample.bytes(0) != b"5", "five");
    let mapped = lines("seq 9").skip(2).map(vec![TypedField::text("x")], move |sample, _| {
        panics(sample);
        Ok(())
    });
    let filtered = lines("seq 9").filter(move |sample| {
        panics(sample);
        Ok(true)
    });
    for dataset in [Arc::new(mapped) as Arc<dyn IterableDataset>, Arc::new(filtered)] {
        for ahead in [Arc::clone(&dataset), Arc::new(Arc::clone(&dataset).prefetch(2).unwrap())] {
            let Some(Err(error)) = StreamBatches::new(ahead, 3).unwrap().last() else { panic!("sample 5 panics") };
            assert!(matches!(&error, Error::Panic { index: Some(4), message } if message == "five"), "{error}");
        }
    }
}

#[test]
fn mismatched_streams_are_not_mixed() {
    assert!(matches!(lines("seq 3").mix(vec![], &[], 7).err(), Some(Error::InvalidArgument { .. })));
    let numbers =
        lines("seq 3").map(vec![TypedField::number(Field::new("x", DType::Int64, [])).unwrap()], |_, _| Ok(()));
    let mixed = lines("seq 3").mix(vec![Arc::new(numbers)], &[1.0, 1.0], 7).unwrap();
    let refused = read(&mixed, StreamPart::WHOLE, StreamPosition::default()).unwrap_err();
    assert!(matches!(refused, Error::SchemaMismatch { part: 1, .. }), "{refused}");
}

#[test]
fn take_does_not_wait_past_its_last_sample() {
    let begin = Instant::now();
    for part in [StreamPart::WHOLE, StreamPart::of_rank(1, 3)] {
        let first = lines("seq 0 2; exec sleep 25").take(3);
        let number = part.split.rank;
        let found = values(read(&first, part, StreamPosition::default()).unwrap());
        assert!(if number == 0 { found == [0, 1, 2] } else { found == [1] }, "{found:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn errors_and_skipped_samples_are_forwarded() {
    let refused = lines("seq 0 5").filter(|sample| match sample.ordinal() {
        3 => Err(Error::User("three".into())),
        _ => Ok(true),
    });
    assert_eq!(read(&refused, StreamPart::WHOLE, StreamPosition::default()).unwrap_err().to_string(), "three");
    let wrong =
        lines("seq 0 5").map(vec![TypedField::number(Field::new("x", DType::Int64, [])).unwrap()], |_, into| {
            into[0].push(1);
            Ok(())
        });
    let error = read(&wrong, StreamPart::WHOLE, StreamPosition::default()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "values", .. }), "{error}");
    let typed = lines("seq 0 5").filter(|sample| sample.to_vec::<f32>(0).map(|_| true));
    let error = read(&typed, StreamPart::WHOLE, StreamPosition::default()).unwrap_err();
    assert!(error.to_string().contains("not float32"), "{error}");

    let damaged = || lines("echo 1; echo '{'; echo 3").on_damage(Damages::LeaveOut);
    let same = damaged().map(vec![TypedField::text("x")], |sample, into| {
        into[0].extend(sample.bytes(0));
        Ok(())
    });
    for dataset in [&damaged().filter(|_| Ok(true)) as &dyn IterableDataset, &damaged().take(9), &same] {
        let mut stream =
            dataset.stream(StreamPart::WHOLE, StreamPosition::default(), &StopSignal::new().unwrap()).unwrap();
        let mut block = SampleBlock::new(1);
        while stream.advance(&mut block).unwrap() == Advance::Sample {}
        assert_eq!((block.len(), block.left_out().len()), (2, 1));
    }

    let mut batches = StreamBatches::new(damaged(), 9).unwrap();
    assert_eq!(batches.by_ref().map(|batch| batch.unwrap().samples()).collect::<Vec<_>>(), [2]);
    assert_eq!((batches.left_out().len(), batches.left_out().len()), (1, 0), "also when the pass is over");
}

fn batches(of: StreamBatches) -> Vec<Vec<u64>> {
    let number = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().parse().unwrap();
    of.map(|batch| {
        let batch = batch.unwrap();
        (0..batch.samples()).map(|row| number(batch.sample(0, row))).collect()
    })
    .collect()
}

#[test]
fn a_stream_comes_in_batches_from_any_position() {
    let of = || StreamBatches::new(lines("seq 0 10"), 4).unwrap();
    let expected = [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10]];
    assert_eq!(batches(of()), expected);
    assert_eq!(batches(of().last_batch(LastBatch::Drop)), expected[..2]);
    assert_eq!(batches(of().part(StreamPart::of_rank(1, 2))), [vec![1, 3, 5, 7], vec![9]]);
    assert_eq!(batches(of().bytes_ahead(1)), expected);
    let mut first = of();
    for left in (0..3).rev() {
        assert!(first.next().unwrap().is_ok());
        assert_eq!(batches(of().start_at(first.position().unwrap())), expected[3 - left..]);
    }
    assert!(first.next().is_none() && first.next().is_none());
    assert!(matches!(
        StreamBatches::new(lines("seq 3"), 0).err(),
        Some(Error::InvalidArgument { argument: "batch_size", .. })
    ));
}

#[test]
fn a_shuffled_stream_has_all_samples_in_an_order_of_its_seed_and_epoch() {
    let of = |seed, epoch| {
        let all = StreamBatches::new(lines("seq 0 99"), 8).unwrap();
        batches(all.shuffle(BufferBound::of_samples(30).unwrap(), seed, epoch)).concat()
    };
    let orders = [of(7, 0), of(7, 1), of(8, 0)];
    assert_eq!(orders[0], of(7, 0));
    assert!(orders[0] != orders[1] && orders[0] != orders[2] && orders[1] != orders[2]);
    for mut order in orders {
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..100));
    }
}

#[test]
fn an_error_follows_earlier_samples_and_ends_the_pass() {
    for last_batch in [LastBatch::Keep, LastBatch::Drop] {
        let mut of = StreamBatches::new(lines("seq 0 5; exit 7"), 4).unwrap().last_batch(last_batch);
        let mut good = 0;
        let error = loop {
            match of.next().expect("the error comes before the end") {
                Ok(batch) => good += batch.samples(),
                Err(error) => break error,
            }
        };
        assert!(good == if last_batch == LastBatch::Keep { 6 } else { 4 }, "{good} samples");
        assert!(matches!(error, Error::Process { .. }) && error.to_string().contains('7'), "{error}");
        assert!(of.next().is_none());
    }
}

#[test]
fn dropping_a_pass_ends_its_thread() {
    let begin = Instant::now();
    let mut of = StreamBatches::new(lines("seq 0 3; exec sleep 1000"), 4).unwrap();
    assert!(of.next().unwrap().is_ok());
    drop(of);
    assert!(begin.elapsed() < Duration::from_secs(9));
}
