//! Indices stored next to their files, which may contain anything: a user who can write one can write arbitrary bytes.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use sluicegate::internal::TarWriter;
use sluicegate::{Features, JsonLines, OnMissing, Tar, TarField, TarOptions, TarValue, TfRecord};
#[cfg(feature = "parquet")]
use sluicegate::{FillValue, Parquet, ParquetFilter, ParquetOptions, Relation};

use super::reading::{check_error, read_all, read_opened};
use super::scratch::scratch;

/// Magic, version, length of the header, and the header's digest.
const PRELUDE: usize = 24;

/// A file, the folder of its index, and the part of the index that ties it to the file.
struct Indexed {
    path: PathBuf,
    folder: PathBuf,
    index: PathBuf,
    /// The header of the index, except its columns.
    key: Vec<u8>,
    whole: Vec<u8>,
}

impl Indexed {
    /// Creates the file and indexes it.
    fn new(name: &str, make: impl FnOnce(&Path), open: fn(&Self)) -> Self {
        let (path, folder) = (scratch(name), scratch(&format!("index of {name}")));
        fs::create_dir_all(&folder).unwrap();
        make(&path);
        let mut indexed = Self { path, folder, index: PathBuf::new(), key: Vec::new(), whole: Vec::new() };
        open(&indexed);
        let is_index = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sluicegate-index");
        let mut entries = fs::read_dir(&indexed.folder).unwrap().map(|entry| entry.unwrap().path());
        indexed.index = entries.find(is_index).expect("an index was kept");
        indexed.whole = fs::read(&indexed.index).unwrap();
        let name_at = indexed.whole.windows(name.len()).position(|window| window == name.as_bytes());
        // After the name of the only file: its size and its modification time.
        indexed.key = indexed.whole[PRELUDE..name_at.unwrap() + name.len() + 16].to_vec();
        indexed
    }

    /// Writes an index whose header continues with `table`, with the correct digest, and whose columns are `columns`,
    /// which begin at a multiple of 64.
    fn put(&self, table: &[u8], columns: &[u8]) {
        let body = [&self.key, table].concat();
        let mut index = self.whole[..12].to_vec();
        index.extend((body.len() as u32).to_le_bytes());
        index.extend(digest(&body).to_le_bytes());
        index.extend(body);
        index.resize(index.len().next_multiple_of(64), 0);
        index.extend(columns);
        fs::write(&self.index, index).unwrap();
    }

    /// Returns the arguments of `put` that produce the true index.
    #[cfg(test)]
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        let header = PRELUDE + u32::from_le_bytes(*self.whole[12..].first_chunk().unwrap()) as usize;
        (&self.whole[PRELUDE + self.key.len()..header], &self.whole[header.next_multiple_of(64)..])
    }
}

/// Returns the digest of an index's header, following the description in `src/dataset/format/index/file.rs`.
fn digest(bytes: &[u8]) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |word: u64| {
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let (mut sum, mut place) = (0_u64, 0_u64);
    for word in words.chain([bytes.len() as u64]) {
        sum = sum.wrapping_add(mix(word.wrapping_add(place)));
        place = place.wrapping_add(GOLDEN);
    }
    mix(sum ^ mix(place))
}

/// Calls `open` with the index in `bytes`: the table of its columns (its length first), and the columns.
fn with_index(cell: &RefCell<Option<Indexed>>, make: impl FnOnce() -> Indexed, bytes: &[u8], open: fn(&Indexed)) {
    let mut indexed = cell.borrow_mut();
    let indexed = indexed.get_or_insert_with(make);
    let mut input = super::input::Input::new(bytes);
    let table = input.part();
    indexed.put(table, input.rest());
    open(indexed);
}

thread_local! {
    static TAR: RefCell<Option<Indexed>> = const { RefCell::new(None) };
    static LINES: RefCell<Option<Indexed>> = const { RefCell::new(None) };
    static TFRECORD: RefCell<Option<Indexed>> = const { RefCell::new(None) };
    #[cfg(feature = "parquet")]
    static FILTER: RefCell<Option<Indexed>> = const { RefCell::new(None) };
    #[cfg(feature = "parquet")]
    static BROKEN: RefCell<Option<Indexed>> = const { RefCell::new(None) };
}

/// Below this total size, indices of lines and TFRecord files are not stored. A fuzzer would spend its time reading the
/// files.
const SMALL: usize = if cfg!(fuzzing) { 4 << 10 } else { 4 << 20 };

fn open_tar(indexed: &Indexed) {
    let fields = || {
        vec![
            TarField::new("__key__", TarValue::Key),
            TarField::new("txt", TarValue::Bytes),
            TarField::new("cls", TarValue::Int),
            TarField::new("npy", TarValue::Npy),
        ]
    };
    let options = TarOptions {
        on_missing: OnMissing::Empty,
        index_folder: Some(indexed.folder.clone()),
        ..TarOptions::default()
    };
    for options in [options.clone(), TarOptions { on_missing: OnMissing::Refuse, ..options }] {
        match Tar::open(vec![indexed.path.clone()], fields(), &options) {
            Ok(tar) => {
                let _ = (tar.first_extensions().inspect_err(check_error), tar.damages().inspect_err(check_error));
                read_all(tar);
            }
            Err(error) => check_error(&error),
        }
    }
}

fn make_tar() -> Indexed {
    let make = |path: &Path| {
        let mut tar = TarWriter::create(path).unwrap();
        let npy = b"\x93NUMPY\x01\x00\x36\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}\x07\x08";
        for key in ["a", "b", "c"] {
            tar.append(format!("{key}.txt").as_bytes(), key.as_bytes()).unwrap();
            tar.append(format!("{key}.cls").as_bytes(), b"3").unwrap();
            tar.append(format!("{key}.npy").as_bytes(), npy).unwrap();
        }
        tar.finish().unwrap();
    };
    Indexed::new("i.tar", make, open_tar)
}

fn open_lines(indexed: &Indexed) {
    read_opened(JsonLines::open(vec![indexed.path.clone()], None, Some(indexed.folder.clone())));
}

fn make_lines() -> Indexed {
    let make = |path: &Path| {
        let mut text = b"{\"a\": 1}\n\n[2]\n\"three\"\n".to_vec();
        text.resize(SMALL, b' ');
        fs::write(path, text).unwrap();
    };
    Indexed::new("i.jsonl", make, open_lines)
}

fn open_tfrecord(indexed: &Indexed) {
    read_opened(TfRecord::open(vec![indexed.path.clone()], Features::Raw, Some(indexed.folder.clone())));
}

fn make_tfrecord() -> Indexed {
    let make = |path: &Path| {
        let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
        let mut whole = Vec::new();
        for sample in [&b"one"[..], &[], &vec![7; SMALL]] {
            let length = (sample.len() as u64).to_le_bytes();
            whole.extend([&length[..], &masked(&length), sample, &masked(sample)].concat());
        }
        fs::write(path, whole).unwrap();
    };
    Indexed::new("i.tfrecord", make, open_tfrecord)
}

/// Row groups of 100 rows, in which every seventh value of column `n` is null; the file is large because of a column
/// that is never read.
#[cfg(feature = "parquet")]
fn write_parquet(path: &Path) {
    use std::sync::Arc;

    use arrow_array::{BinaryArray, Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("pad", DataType::Binary, false)];
    let schema = Arc::new(Schema::new(fields));
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), schema.clone(), Some(properties)).unwrap();
    let pad = vec![7; SMALL / 300 + 1];
    for group in 0..3 {
        let numbers = (0..100).map(|row| (row % 7 != 0).then_some(group * 100 + row));
        let numbers = Arc::new(Int64Array::from_iter(numbers));
        let pads = Arc::new(BinaryArray::from_iter_values(std::iter::repeat_n(&pad, 100)));
        writer.write(&RecordBatch::try_new(schema.clone(), vec![numbers, pads]).unwrap()).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

#[cfg(feature = "parquet")]
fn parquet_options(indexed: &Indexed, filter: Vec<ParquetFilter>) -> ParquetOptions {
    let mut options =
        ParquetOptions { filter, index_folder: Some(indexed.folder.clone()), ..ParquetOptions::default() };
    options.columns.columns = Some(vec!["n".to_owned()]);
    options
}

/// With the rows that a filter keeps of each row group: all, some, and none.
#[cfg(feature = "parquet")]
fn open_filter(indexed: &Indexed) {
    let relation = Relation::In((0..150).map(FillValue::Int).collect());
    let filter = vec![ParquetFilter { column: "n".to_owned(), relation }];
    read_opened(Parquet::open(vec![indexed.path.clone()], parquet_options(indexed, filter)));
}

#[cfg(feature = "parquet")]
fn make_filter() -> Indexed {
    Indexed::new("i.parquet", write_parquet, open_filter)
}

/// With the rows that are dropped because they are null.
#[cfg(feature = "parquet")]
fn open_broken(indexed: &Indexed) {
    let opened = Parquet::open_whole(vec![indexed.path.clone()], parquet_options(indexed, Vec::new()));
    if let Ok(rows) = &opened {
        assert!(rows.damages().len() <= 1001);
        let groups = (0..3).map(|group| rows.whole_in(100 * group..100 * (group + 1)));
        assert_eq!(groups.sum::<usize>(), sluicegate::Dataset::len(rows));
    }
    read_opened(opened);
}

#[cfg(feature = "parquet")]
fn make_broken() -> Indexed {
    Indexed::new("b.parquet", write_parquet, open_broken)
}

#[cfg(feature = "parquet")]
pub(super) fn of_filter(bytes: &[u8]) {
    FILTER.with(|cell| with_index(cell, make_filter, bytes, open_filter));
}

#[cfg(feature = "parquet")]
pub(super) fn of_broken(bytes: &[u8]) {
    BROKEN.with(|cell| with_index(cell, make_broken, bytes, open_broken));
}

pub(super) fn of_tar(bytes: &[u8]) {
    TAR.with(|cell| with_index(cell, make_tar, bytes, open_tar));
}

pub(super) fn of_lines(bytes: &[u8]) {
    LINES.with(|cell| with_index(cell, make_lines, bytes, open_lines));
}

pub(super) fn of_tfrecord(bytes: &[u8]) {
    TFRECORD.with(|cell| with_index(cell, make_tfrecord, bytes, open_tfrecord));
}

/// For each target, the input that is the true index.
#[cfg(test)]
pub(super) fn true_indices() -> Vec<(&'static str, Vec<u8>)> {
    let indices = [
        ("index_of_tar", make_tar()),
        ("index_of_lines", make_lines()),
        ("index_of_tfrecord", make_tfrecord()),
        #[cfg(feature = "parquet")]
        ("index_of_filter", make_filter()),
        #[cfg(feature = "parquet")]
        ("index_of_broken", make_broken()),
    ];
    let input = |(target, indexed): (&'static str, Indexed)| {
        let (table, columns) = indexed.parts();
        (target, [&(table.len() as u16).to_le_bytes()[..], table, columns].concat())
    };
    indices.into_iter().map(input).collect()
}
