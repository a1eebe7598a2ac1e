//! Formats that are read from front to back.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use sluicegate::internal::StreamPacking;
use sluicegate::{
    Advance, Damages, IterableDataset, JsonLines, OnMissing, Raw, SampleBlock, StopSignal, StreamDataset, StreamFormat,
    StreamPart, StreamPosition, StreamSource, Tar, TarField, TarOptions, TarValue, TfRecord,
};

use super::input::Input;
use super::reading::{Samples, Values, check_error, read_opened};
use super::scratch::file;
use super::{records, rows, tar, texts};

/// Maximum number of samples to read from a stream.
const MOST_SAMPLES: usize = 1000;

/// Maximum number of bytes in a sample.
const LARGEST: u64 = 1 << 16;

/// Number of bytes that a pipe accepts without a reader.
const OF_PIPE: usize = 1 << 15;

/// The result of reading a stream to its end.
#[derive(Debug, PartialEq)]
struct Found {
    fields: String,
    samples: Vec<(Values, StreamPosition)>,
    left_out: Vec<String>,
    error: Option<String>,
}

impl Found {
    /// True if nothing was damaged, and the only end was that of the stream.
    fn is_whole(&self) -> bool {
        self.is_all() && self.error.is_none() && self.left_out.is_empty()
    }

    /// True if an error, or the report of a skipped item, contains these words.
    fn says(&self, words: &str) -> bool {
        self.error.iter().chain(&self.left_out).any(|message| message.contains(words))
    }

    fn is_all(&self) -> bool {
        self.samples.len() < MOST_SAMPLES
    }
}

/// Reads blocks of `block` samples.
fn read(dataset: &StreamDataset, part: StreamPart, from: StreamPosition, block: usize) -> Found {
    let mut found = Found { fields: String::new(), samples: Vec::new(), left_out: Vec::new(), error: None };
    let refuse = |error| {
        check_error(&error);
        Some(error.to_string())
    };
    let mut stream = match dataset.stream(part, from, &StopSignal::new().unwrap()) {
        Ok(stream) => stream,
        Err(error) => return Found { error: refuse(error), ..found },
    };
    found.fields = format!("{:?}", stream.fields());
    let fields = stream.fields().len();
    let mut has_ended = false;
    while !has_ended && found.is_all() {
        let mut samples = SampleBlock::new(fields);
        while samples.len() < block && !has_ended {
            has_ended = match stream.advance(&mut samples) {
                Ok(Advance::Sample) => false,
                Ok(Advance::End) => true,
                Err(error) => {
                    found.error = refuse(error);
                    true
                }
            };
        }
        let values = |row| (0..fields).map(|field| samples.value(field, row).to_vec()).collect();
        found.samples.extend((0..samples.len()).map(|row| (values(row), samples.position(row))));
        found.left_out.extend_from_slice(samples.left_out());
    }
    found.samples.truncate(MOST_SAMPLES);
    found
}

/// How a stream is read.
struct Way {
    damages: Damages,
    packing: StreamPacking,
    /// Number of bytes that arrive at a time from a pipe.
    piece: usize,
}

impl Way {
    fn new(input: &mut Input<'_>) -> Self {
        Self {
            damages: input.choice(&[Damages::Refuse, Damages::LeaveOut]),
            packing: input.choice(&[StreamPacking::None, StreamPacking::ByContent]),
            piece: input.choice(&[1, 3, 64, 511, 1024]),
        }
    }

    fn open(&self, source: StreamSource, format: &StreamFormat) -> StreamDataset {
        let dataset = StreamDataset::new(vec![source], format.clone());
        dataset.packed(self.packing).on_damage(self.damages).with_largest_sample(LARGEST)
    }

    /// Reads the file at `path`, whose contents are `bytes`, in every way, and asserts that the results are equal, and
    /// that they equal the result of `by_index`, which reads the same file with an index, unless one of them saw
    /// damage.
    fn check(&self, path: &Path, bytes: &[u8], format: &StreamFormat, by_index: impl FnOnce() -> Option<Samples>) {
        let dataset = self.open(StreamSource::Path(path.into()), format);
        let whole = read(&dataset, StreamPart::WHOLE, StreamPosition::default(), 64);
        assert_eq!(whole, read(&dataset, StreamPart::WHOLE, StreamPosition::default(), 1), "by other blocks");
        if bytes.len() <= OF_PIPE {
            let slowly = self.read_slowly(path, bytes, format);
            // How much of damaged data can be unpacked depends on how much of it is available at once.
            let is_packed = [&whole, &slowly].iter().any(|found| found.says("it can't be decompressed"));
            // To recognize another format, a pipe is not waited on for more bytes than the first sample has.
            let is_foreign = whole.says("the file is ");
            assert!(
                is_packed || is_foreign || whole == slowly,
                "in pieces of {}: {slowly:?}, but {whole:?}",
                self.piece
            );
        }
        if whole.error.is_none() && whole.is_all() {
            for number in 0..3 {
                let part = StreamPart::of_rank(number, 3);
                let found = read(&dataset, part.clone(), StreamPosition::default(), 64);
                let is_own = |(_, position): &&(Values, StreamPosition)| (position.ordinal - 1) % 3 == number;
                assert!(found.samples.iter().eq(whole.samples.iter().filter(is_own)), "{part:?}: {found:?} {whole:?}");
            }
            let len = whole.samples.len();
            for place in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|&place| place < len) {
                let rest = read(&dataset, StreamPart::WHOLE, whole.samples[place].1, 64);
                assert_eq!(rest.samples, whole.samples[place + 1..], "{:?}: {:?}", whole.samples[place].1, rest.error);
            }
        }
        if self.packing == StreamPacking::None
            && whole.is_whole()
            && let Some(samples) = by_index()
            && samples.is_whole()
        {
            let streamed = whole.samples.iter().map(|(values, _)| Some(values.clone()));
            assert!(samples.samples.iter().cloned().eq(streamed), "{samples:?} by its index, {:?}", whole.samples);
        }
    }

    /// Reads a pipe whose bytes arrive piece by piece.
    fn read_slowly(&self, path: &Path, bytes: &[u8], format: &StreamFormat) -> Found {
        let (reader, mut writer) = std::io::pipe().unwrap();
        // Keeps a reader open, so that writing after the stream has stopped reading causes no signal.
        let _keep = reader.try_clone().unwrap();
        let source = StreamSource::Open(Arc::new(reader.into()), path.display().to_string());
        thread::scope(|scope| {
            let pieces = bytes.chunks(self.piece.max(bytes.len() / 256));
            scope.spawn(move || pieces.into_iter().for_each(|piece| writer.write_all(piece).unwrap()));
            read(&self.open(source, format), StreamPart::WHOLE, StreamPosition::default(), 64)
        })
    }
}

/// Input: the way, the fields, and the file.
pub(super) fn json_lines(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (way, fields) = (Way::new(&mut input), texts::fields_of_lines(&mut input));
    let bytes = input.rest();
    let path = file("s.jsonl", bytes);
    way.check(&path, bytes, &StreamFormat::json_lines(fields.clone()), || {
        read_opened(JsonLines::open(vec![path.clone()], fields, None))
    });
}

/// Input: the way, header, delimiter, how the types are determined, and the file.
pub(super) fn csv(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (way, table) = (Way::new(&mut input), texts::Table::new(&mut input));
    let bytes = input.rest();
    let path = file("s.csv", bytes);
    let texts::Table { header, delimiter, defaults, fields } = table.clone();
    let format = StreamFormat::csv(fields, defaults, header, delimiter);
    way.check(&path, bytes, &format, || read_opened(table.open(vec![path.clone()])));
}

/// Input: the way, and the input of the TFRecord target.
pub(super) fn tfrecord(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let way = Way::new(&mut input);
    let (features, bytes) = records::framed_samples(input);
    let path = file("s.tfrecord", &bytes);
    way.check(&path, &bytes, &StreamFormat::tfrecord(features.clone()), || {
        read_opened(TfRecord::open(vec![path.clone()], features, None))
    });
}

/// Input: the way, and the input of the raw target.
pub(super) fn raw(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let way = Way::new(&mut input);
    let (header_bytes, sample_bytes, fields) = rows::raw_layout(&mut input);
    let bytes = input.rest();
    let path = file("s.raw", bytes);
    let format = StreamFormat::raw(header_bytes, sample_bytes, fields.clone());
    way.check(&path, bytes, &format, || read_opened(Raw::open(path.clone(), header_bytes, sample_bytes, fields)));
}

/// Input: the way, options, kinds of fields, whether these are known and arrays have any length, and the input of the
/// archive target.
pub(super) fn archive(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (way, options) = (Way::new(&mut input), tar::options(&mut input));
    let (kinds, form) = (input.byte(), input.byte());
    let (is_known, is_ragged) = (form % 2 == 1, form & 2 != 0);
    let bytes = tar::summed(input);
    let path = file("s.tar", &bytes);
    let first = vec![TarField::new("__key__", TarValue::Key), TarField::new("__url__", TarValue::Url)];
    let known = ["txt", "npy", "cls", "score"].into_iter().enumerate();
    let kind = |number| if is_ragged { tar::as_ragged(tar::kind(kinds, number)) } else { tar::kind(kinds, number) };
    let known: Vec<TarField> = known.map(|(number, name)| TarField::new(name, kind(number))).collect();
    let TarOptions { on_missing, end, .. } = options;
    let fields = is_known.then_some(known.clone());
    let format = StreamFormat::tar(fields, first.clone(), on_missing, end);
    way.check(&path, &bytes, &format, || {
        let is_comparable = is_known && on_missing != OnMissing::Empty;
        let options = TarOptions { damages: Damages::Refuse, ..options };
        let fields = first.into_iter().chain(known).collect();
        is_comparable.then(|| read_opened(Tar::open(vec![path.clone()], fields, &options))).flatten()
    });
}
