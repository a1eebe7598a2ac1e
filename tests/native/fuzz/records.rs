//! TFRecord and MDS.

use std::fs;

use sluicegate::{DType, Features, Field, Mds, TfRecord, TypedField};

use super::input::Input;
use super::reading::read_opened;
use super::scratch::{file, scratch};

fn features(kind: u8) -> Features {
    let number = |name: &str, dtype, shape: &[usize]| TypedField::number(Field::new(name, dtype, shape)).unwrap();
    match kind % 6 {
        0 => Features::Raw,
        1 => Features::Inferred,
        2 => Features::Typed(vec![
            number("a", DType::Int64, &[]).or(vec![7; 8]).unwrap(),
            TypedField::number(Field::variable("b", DType::Float32, [])).unwrap(),
            TypedField::text("c"),
        ]),
        4 | 5 => Features::Typed(vec![
            TypedField::number(Field::variable("a", DType::Int64, [])).unwrap(),
            if kind % 6 == 4 { TypedField::texts("c") } else { TypedField::byte_strings("c") },
        ]),
        _ => Features::Typed(vec![
            number("a", DType::Bool, &[2]),
            TypedField::number(Field::variable("b", DType::UInt16, [3])).unwrap(),
            TypedField::bytes("c").or(Vec::new()).unwrap(),
        ]),
    }
}

/// Chooses features, and the file: as given, or made of samples with correct lengths and checksums.
pub(super) fn framed_samples(mut input: Input<'_>) -> (Features, Vec<u8>) {
    let (features, is_framed) = (features(input.byte()), input.byte() % 2 == 1);
    let whole = match is_framed {
        false => input.rest().to_vec(),
        true => {
            let mut whole = Vec::new();
            while !input.is_empty() {
                let sample = input.part();
                let length = (sample.len() as u64).to_le_bytes();
                let checksum = |bytes| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
                whole.extend([&length[..], &checksum(&length), sample, &checksum(sample)].concat());
            }
            whole
        }
    };
    (features, whole)
}

/// Input: features and file.
pub(super) fn tfrecord(bytes: &[u8]) {
    let (features, whole) = framed_samples(Input::new(bytes));
    read_opened(TfRecord::open(vec![file("x.tfrecord", &whole)], features, None));
}

const ENCODINGS: [(&str, &str); 14] = [
    ("int", "8"),
    ("str", "null"),
    ("json", "null"),
    ("ndarray", "null"),
    ("ndarray:int16", "null"),
    ("ndarray:uint8:2,2", "4"),
    ("str_int", "null"),
    ("str_float", "null"),
    ("str_decimal", "null"),
    ("float16", "2"),
    ("bytes", "null"),
    ("jpeg:9", "null"),
    ("uint8", "1"),
    ("pkl", "null"),
];

/// Returns the index of one shard whose columns, sizes, and number of samples come from the input.
fn index_of(input: &mut Input<'_>, (raw_bytes, samples): (usize, u32), zip: &str) -> String {
    let columns: Vec<_> = (0..input.byte() % 6).map(|_| input.choice(&ENCODINGS)).collect();
    let list = |part: &dyn Fn(usize) -> String| (0..columns.len()).map(part).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"version":2,"shards":[{{"format":"mds","version":2,"column_names":[{}],"column_encodings":[{}],
        "column_sizes":[{}],"compression":{},"samples":{samples},"raw_data":{{"basename":"x.mds","bytes":{raw_bytes}}},
        "zip_data":{zip}}}]}}"#,
        list(&|number| format!("\"{number}\"")),
        list(&|number| format!("{:?}", columns[number].0)),
        list(&|number| columns[number].1.to_owned()),
        if zip == "null" { "null" } else { "\"zstd\"" },
    )
}

fn first_word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// Input: whether the index is in the input or made for its shard, and both.
pub(super) fn mds(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let folder = scratch("mds");
    fs::create_dir_all(&folder).unwrap();
    let is_made = input.byte() % 2 == 1;
    let index = match is_made {
        false => input.part().to_vec(),
        true => Vec::new(),
    };
    let mut columns = Input::new(if is_made { input.part() } else { &[] });
    let shard = input.rest();
    let index = match is_made {
        false => index,
        true => index_of(&mut columns, (shard.len(), first_word(shard)), "null").into_bytes(),
    };
    fs::write(folder.join("index.json"), index).unwrap();
    fs::write(folder.join("x.mds"), shard).unwrap();
    read_opened(Mds::open(&folder, None));
}

/// Input: the columns, the size of the shard and the number of its samples, and the compressed shard.
pub(super) fn mds_zstd(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let folder = scratch("mds-zstd");
    fs::create_dir_all(&folder).unwrap();
    let mut columns = Input::new(input.part());
    let (raw_bytes, samples) = (input.word() | usize::from(input.byte()) << 16, u32::from(input.byte()));
    let index = index_of(&mut columns, (raw_bytes, samples), r#"{"basename":"x.mds.zstd","bytes":0}"#);
    fs::write(folder.join("index.json"), index).unwrap();
    fs::write(folder.join("x.mds.zstd"), input.rest()).unwrap();
    read_opened(Mds::open(&folder, None));
}
