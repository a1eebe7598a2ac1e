//! Streams: the samples of a byte stream from front to back, for any chunking, any part, and any start.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sluicegate::internal::{ReadAhead, ShuffleBuffer, ShuffledSamples, Slab, TarWriter};
use sluicegate::{
    Advance, BufferBound, CsvHeader, DType, Damages, Error, Features, Field, IterableDataset, OnMissing, RawField,
    Result, SampleBlock, StackSamples, StopSignal, StreamDataset, StreamFormat, StreamPart, StreamPosition,
    StreamSource, TarEnd, TarField, TarValue, TypedField,
};
use tempfile::TempDir;

type Values = Vec<Vec<u8>>;

/// Returns a file of each format, and its reader.
fn formats(folder: &Path) -> Vec<(PathBuf, StreamFormat)> {
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut shard = TarWriter::create(folder.join("a.tar")).unwrap();
    for sample in 0..9 {
        let long = "folder/".repeat(if sample == 4 { 40 } else { 1 });
        shard
            .append(format!("{long}{sample}.txt").as_bytes(), &vec![b'a' + sample; 300 * usize::from(sample)])
            .unwrap();
        shard.append(format!("{long}{sample}.cls").as_bytes(), sample.to_string().as_bytes()).unwrap();
        shard.append(b"not-a-sample", b"x").unwrap();
    }
    shard.finish().unwrap();
    let fields = vec![TarField::new("cls", TarValue::Int), TarField::new("txt", TarValue::Bytes)];
    let first = vec![TarField::new("__key__", TarValue::Key)];
    let tar = StreamFormat::tar(Some(fields), first, OnMissing::Refuse, TarEnd::ZeroBlock);
    let lines: String =
        (0..9).map(|line| format!("{{\"a\": {line}, \"b\": \"{}\"}}\r\n\n", "é".repeat(line))).collect();
    let rows: String = (0..9).map(|row| format!("{row},\"x\"\"\n{row}\",\r\n\n")).collect();
    let a = TypedField::number(Field::new("a", DType::Int64, [])).unwrap();
    let csv = |header| StreamFormat::csv(None, Vec::new(), header, b',');
    let number = RawField::new(Field::new("x", DType::UInt16, []), 1);
    vec![
        (folder.join("a.tar"), tar),
        (put("a.jsonl", format!("\u{feff}{lines}").as_bytes()), StreamFormat::json_lines(None)),
        (put("b.jsonl", lines.trim_end().as_bytes()), StreamFormat::json_lines(Some(vec![a, TypedField::text("b")]))),
        (put("a.csv", format!("a,b,c\n{rows}").as_bytes()), csv(CsvHeader::FirstRow)),
        (put("b.csv", rows.trim_end().as_bytes()), csv(CsvHeader::None)),
        (
            put(
                "a.tfrecord",
                &[0x03, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, 0x6f, 0x6e, 0x65, 0x01, 0x40, 0x55, 0x08]
                    .repeat(9),
            ),
            StreamFormat::tfrecord(Features::Raw),
        ),
        (put("a.bin", &(0..29).collect::<Vec<u8>>()), StreamFormat::raw(2, 3, vec![number.swapped()])),
    ]
}

fn read(dataset: &StreamDataset, part: StreamPart, from: StreamPosition) -> Result<Vec<(Values, StreamPosition)>> {
    let mut stream = dataset.stream(part, from, &StopSignal::new()?)?;
    let fields = stream.fields().len();
    let mut block = SampleBlock::new(fields);
    while stream.advance(&mut block)? == Advance::Sample {}
    let values = |row| (0..fields).map(|field| block.value(field, row).to_vec()).collect();
    Ok((0..block.len()).map(|row| (values(row), block.position(row))).collect())
}

fn all(dataset: &StreamDataset) -> Vec<(Values, StreamPosition)> {
    read(dataset, StreamPart::WHOLE, StreamPosition::default()).unwrap()
}

#[test]
fn bytes_arriving_one_by_one_yield_the_same_samples() {
    let folder = TempDir::new().unwrap();
    for (path, format) in formats(folder.path()) {
        let whole = all(&StreamDataset::new(vec![StreamSource::Path(path.clone())], format.clone()));
        assert_eq!(whole.len(), 9, "{}", path.display());
        let (reader, mut writer) = std::io::pipe().unwrap();
        let bytes = fs::read(&path).unwrap();
        let name = StreamSource::Open(Arc::new(reader.into()), "pipe".into());
        let slowly = StreamDataset::new(vec![name], format);
        assert!(!slowly.is_repeatable());
        thread::scope(|scope| {
            scope.spawn(move || bytes.iter().for_each(|&byte| writer.write_all(&[byte]).unwrap()));
            let found: Vec<Values> = all(&slowly).into_iter().map(|(values, _)| values).collect();
            assert_eq!(found, whole.iter().map(|(values, _)| values.clone()).collect::<Vec<_>>());
        });
    }
}

#[test]
fn parts_are_disjoint_and_resume_from_every_position() {
    let folder = TempDir::new().unwrap();
    for (path, format) in formats(folder.path()) {
        let command = format!("cat {}", path.display());
        for source in [StreamSource::Path(path), StreamSource::Command(command)] {
            let dataset = StreamDataset::new(vec![source; 2], format.clone());
            let whole: Vec<Values> = all(&dataset).into_iter().map(|(values, _)| values).collect();
            assert_eq!(whole.len(), 18);
            for number in 0..3 {
                let part = StreamPart::of_rank(number, 3);
                let owned = read(&dataset, part.clone(), StreamPosition::default()).unwrap();
                assert!(owned.iter().map(|(values, _)| values).eq(whole.iter().skip(number as usize).step_by(3)));
                for (place, (_, position)) in owned.iter().enumerate() {
                    assert_eq!(position.ordinal, number + 3 * place as u64 + 1);
                    assert_eq!(read(&dataset, part.clone(), *position).unwrap(), owned[place + 1..], "{position:?}");
                }
            }
        }
    }
}

#[test]
fn a_truncated_source_is_reported() {
    let lines =
        |command: &str| StreamDataset::new(vec![StreamSource::Command(command.into())], StreamFormat::json_lines(None));
    let (_, position) = all(&lines("seq 5"))[3].clone();
    let error = read(&lines("seq 3"), StreamPart::WHOLE, position).unwrap_err();
    assert!(error.to_string().contains("has 3 samples, but 4 of it had been read"), "{error}");
}

#[test]
fn damaged_samples_belong_to_one_part_and_damaged_rests_to_all() {
    let folder = TempDir::new().unwrap();
    let (path, format) = formats(folder.path()).remove(5);
    let whole = fs::read(&path).unwrap();
    let failures = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let dataset = StreamDataset::new(vec![StreamSource::Path(path.clone())], format.clone());
        [0, 1, 2].map(|number| read(&dataset, StreamPart::of_rank(number, 3), StreamPosition::default()).is_err())
    };
    assert_eq!(failures(&whole), [false, false, false]);
    // The record at 4, of 19 bytes, belongs to the second part.
    let mut damaged = whole.clone();
    damaged[4 * 19 + 13] ^= 1;
    assert_eq!(failures(&damaged), [false, true, false]);
    assert_eq!(failures(&whole[..5 * 19 - 2]), [true, true, true]);
}

#[test]
fn a_failed_command_is_always_an_error() {
    let source = StreamSource::Command("echo 1; echo sorry >&2; exit 7".into());
    for damages in [Damages::Refuse, Damages::LeaveOut] {
        let dataset = StreamDataset::new(vec![source.clone()], StreamFormat::json_lines(None)).on_damage(damages);
        let error = read(&dataset, StreamPart::WHOLE, StreamPosition::default()).unwrap_err();
        assert!(
            matches!(&error, Error::Process { stderr, status, .. } if stderr == "sorry" && status.contains('7')),
            "{error}"
        );
    }
}

#[test]
fn a_stop_ends_every_wait() {
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for source in [
        StreamSource::Path(fifo),
        StreamSource::Command("sleep 1000".into()),
        StreamSource::Command("exec >&-; sleep 1000".into()),
    ] {
        let dataset = StreamDataset::new(vec![source], StreamFormat::json_lines(None));
        let begin = Instant::now();
        let mut ahead = ReadAhead::new(Arc::new(dataset), StreamPart::WHOLE, StreamPosition::default(), 1000);
        assert_eq!(ahead.wait(1, Duration::from_millis(200)).unwrap(), None);
        drop(ahead);
        assert!(begin.elapsed() < Duration::from_secs(9));
    }
}

#[test]
fn samples_before_an_error_are_delivered() {
    let ahead = |command: &str| {
        let lines = StreamDataset::new(vec![StreamSource::Command(command.into())], StreamFormat::json_lines(None));
        ReadAhead::new(Arc::new(lines), StreamPart::WHOLE, StreamPosition::default(), 1 << 20)
    };
    let (moment, long) = (Duration::from_millis(100), Duration::from_secs(60));
    let mut stalled = ahead("seq 3; exec sleep 1000");
    assert!(stalled.has(3, long) && !stalled.has(4, moment) && stalled.has(2, Duration::ZERO));
    let mut ended = ahead("seq 3");
    assert!(ended.has(4, long));
    assert_eq!(ended.wait(4, long).unwrap(), Some(3));
    let mut failed = ahead("seq 3; echo {");
    assert!(failed.has(4, long));
    failed.take(3);
    assert!(failed.has(1, long));
    assert!(failed.wait(1, long).unwrap_err().to_string().contains("line 4"));
}

#[test]
fn reading_ahead_is_bounded_without_deadlock() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.bin");
    File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let field = RawField::new(Field::new("x", DType::UInt8, [1 << 20]), 0);
    let format = StreamFormat::raw(0, 1 << 20, vec![field]);
    let dataset = StreamDataset::new(vec![StreamSource::Path(path)], format);
    let mut ahead = ReadAhead::new(Arc::new(dataset), StreamPart::WHOLE, StreamPosition::default(), 2 << 20);
    let slab = Slab::new(1);
    let mut found = 0;
    loop {
        let available = loop {
            if let Some(available) = ahead.wait(20, Duration::from_secs(1)).unwrap() {
                break available;
            }
        };
        if available == 0 {
            break;
        }
        let (batch, positions) = ahead.batch(20, &StackSamples, &slab).unwrap();
        assert_eq!(batch.samples(), available.min(20));
        found += batch.samples();
        assert_eq!(positions.last().unwrap().ordinal, found as u64);
        ahead.take(batch.samples());
    }
    assert_eq!(found, 64);
}

/// Returns a pass over `dataset` from `mark` on, through a buffer of `size`.
fn pass(
    dataset: &StreamDataset,
    size: usize,
    mark: (u64, StreamPosition),
) -> (ReadAhead, ShuffleBuffer, ShuffledSamples) {
    let ahead = ReadAhead::new(Arc::new(dataset.clone()), StreamPart::WHOLE, mark.1, 1 << 20);
    let buffer = ShuffleBuffer::new(BufferBound::of_samples(size).unwrap(), 7, 0, 0, 0);
    (ahead, buffer, ShuffledSamples::new(mark.0, mark.1, 3, mark.0))
}

/// Draws the next two samples: their ordinals, each with its values.
fn draw((ahead, buffer, samples): &mut (ReadAhead, ShuffleBuffer, ShuffledSamples)) -> Vec<(usize, Values)> {
    let drawn = loop {
        if let Some(drawn) = samples.draw(ahead, buffer, 2, Duration::from_secs(1)).unwrap() {
            break drawn;
        }
    };
    if drawn == 0 {
        return Vec::new();
    }
    let (batch, ordinals) = samples.batch(ahead.schema(), &StackSamples, &Slab::new(1)).unwrap();
    let fields = ahead.fields().len();
    let values = |row| (0..fields).map(|field| batch.sample(field, row).to_vec()).collect();
    ordinals.into_iter().enumerate().map(|(row, ordinal)| (ordinal, values(row))).collect()
}

#[test]
fn samples_go_through_a_shuffle_buffer_and_are_held_again_from_any_mark() {
    let folder = TempDir::new().unwrap();
    for (path, format) in formats(folder.path()) {
        let dataset = StreamDataset::new(vec![StreamSource::Path(path)], format);
        let whole: Vec<Values> = all(&dataset).into_iter().map(|(values, _)| values).collect();
        for size in [1, 4, 100] {
            let (_, mut buffer, _) = pass(&dataset, size, Default::default());
            let (mut ordinals, mut slots, mut order) = (0..whole.len(), Vec::new(), Vec::new());
            loop {
                while !buffer.is_full()
                    && let Some(ordinal) = ordinals.next()
                {
                    slots.push(ordinal);
                    buffer.put(1);
                }
                let Some(slot) = buffer.take() else { break };
                order.push(slots.swap_remove(slot));
            }
            let expected: Vec<_> = order.into_iter().map(|ordinal| (ordinal, whole[ordinal].clone())).collect();
            let (mut found, mut marks) = (Vec::new(), Vec::new());
            let mut first = pass(&dataset, size, Default::default());
            while found.len() < whole.len() {
                found.extend(draw(&mut first));
                marks.append(&mut first.2.marks());
                let position = first.1.position();
                let oldest = first.1.oldest().unwrap_or(position.read);
                let mark = *marks.iter().rfind(|(read, _)| *read <= oldest).unwrap();
                // A mark is set when a sample is requested.
                assert!(oldest - mark.0 <= 3, "{marks:?}");
                let mut again = pass(&dataset, size, mark);
                while again.2.read_again(&mut again.0, position.read, &position.held, Duration::from_secs(1)).unwrap()
                    != Some(true)
                {}
                again.1.resume(&position, &vec![0; position.held.len()]).unwrap();
                assert_eq!(draw(&mut again), expected[found.len()..].iter().take(2).cloned().collect::<Vec<_>>());
            }
            assert_eq!(found, expected);
            let beyond = whole.len() as u64 + 1;
            let mut short = pass(&dataset, size, Default::default());
            assert_eq!(short.2.read_again(&mut short.0, beyond, &[0], Duration::from_secs(9)).unwrap(), Some(false));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn changed_bytes_do_not_panic(places in prop::collection::vec((0_usize..40_000, any::<u8>()), 1..5), cut in any::<bool>()) {
        let folder = TempDir::new().unwrap();
        for (path, format) in formats(folder.path()) {
            let mut bytes = fs::read(&path).unwrap();
            let len = bytes.len();
            places.iter().for_each(|&(place, byte)| bytes[place % len] = byte);
            if cut {
                bytes.truncate(places[0].0 % len);
            }
            fs::write(&path, &bytes).unwrap();
            for damages in [Damages::Refuse, Damages::LeaveOut] {
                let dataset = StreamDataset::new(vec![StreamSource::Path(path.clone())], format.clone());
                let found = read(&dataset.on_damage(damages).with_largest_sample(1 << 16), StreamPart::WHOLE, StreamPosition::default());
                prop_assert!(found.map_or(true, |found| found.len() <= 40_000));
            }
        }
    }
}

#[test]
fn millions_of_empty_lines_do_not_overflow_the_stack() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, [&b"a\n"[..], &b"\n".repeat(2 << 20), b"1\n"].concat()).unwrap();
    let csv = StreamFormat::csv(None, Vec::new(), CsvHeader::FirstRow, b',');
    // The first line is not JSON.
    for format in [csv, StreamFormat::json_lines(None)] {
        let dataset = StreamDataset::new(vec![StreamSource::Path(path.clone())], format);
        let dataset = dataset.on_damage(Damages::LeaveOut);
        let found = thread::Builder::new().stack_size(256 << 10).spawn(move || all(&dataset).len());
        assert_eq!(found.unwrap().join().unwrap(), 1);
    }
}

#[test]
fn an_archive_truncated_in_padding_is_reported() {
    let folder = TempDir::new().unwrap();
    let (path, format) = formats(folder.path()).swap_remove(0);
    let whole = fs::read(&path).unwrap();
    let begin = whole.windows(5).position(|name| name == b"0.cls").unwrap();
    for kept in [1, 2, 400, 511] {
        // Contents of one byte, and of the whole block that contains them.
        fs::write(&path, &whole[..(begin / 512 + 1) * 512 + kept]).unwrap();
        let dataset = StreamDataset::new(vec![StreamSource::Path(path.clone())], format.clone());
        let error = read(&dataset, StreamPart::WHOLE, StreamPosition::default()).unwrap_err();
        assert!(error.to_string().contains("expected 511 bytes of padding"), "{error}");
    }
}

#[test]
fn fields_are_inferred_from_the_first_source_with_a_sample() {
    let folder = TempDir::new().unwrap();
    let source = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let paths = [source("empty", ""), source("header", "x,y\n"), source("full", "x,y\n1,a\n2,b\n")];
    let once = |path: &PathBuf| StreamSource::Open(Arc::new(File::open(path).unwrap().into()), "once".into());
    for is_once in [false, true] {
        let sources = paths.iter().map(|path| if is_once { once(path) } else { StreamSource::Path(path.clone()) });
        let format = StreamFormat::csv(None, Vec::new(), CsvHeader::FirstRow, b',');
        let samples = all(&StreamDataset::new(sources.collect(), format));
        let values: Vec<_> = samples.into_iter().map(|(values, _)| values).collect();
        let row = |x: i64, y: &[u8]| vec![x.to_le_bytes().to_vec(), y.to_vec()];
        assert_eq!(values, [row(1, b"a"), row(2, b"b")]);
    }
}
