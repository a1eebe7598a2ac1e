//! TFRecord files, and the protocol buffers in them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{DType, DataLoader, Error, Features, Field, NestedType, NestedValue, TfRecord, TypedField};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn put(folder: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("x.tfrecord");
    fs::write(&path, bytes).unwrap();
    path
}

/// Computes the masked checksum by its definition, bit by bit.
fn masked(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn framed(samples: &[Vec<u8>]) -> Vec<u8> {
    let frame = |sample: &Vec<u8>| {
        let length = (sample.len() as u64).to_le_bytes();
        [&length[..], &masked(&length), sample, &masked(sample)].concat()
    };
    samples.iter().flat_map(frame).collect()
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128, "one byte is the length");
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn example(name: &str, feature: &[u8]) -> Vec<u8> {
    field(1, &field(1, &[field(1, name.as_bytes()), field(2, feature)].concat()))
}

fn fields() -> Vec<TypedField> {
    let number = |field| TypedField::number(field).unwrap().or(vec![]).unwrap();
    vec![
        number(Field::variable("i", DType::Int16, [])),
        number(Field::variable("f", DType::Float32, [])),
        TypedField::text("t").or(b"none".to_vec()).unwrap(),
        TypedField::byte_strings("u").or([0; 6].to_vec()).unwrap(),
    ]
}

fn read_all(dataset: TfRecord) -> sluicegate::Result<()> {
    let loader = DataLoader::builder(Arc::new(dataset)).batch_size(2).build()?;
    loader.epoch(0)?.try_for_each(|batch| batch.map(drop))
}

#[test]
fn raw_samples_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let samples: Vec<Vec<u8>> = [0, 5, 100_000, 1, 70_000, 3].map(|bytes| vec![bytes as u8; bytes]).to_vec();
    let raw = TfRecord::open(vec![put(&folder, &framed(&samples))], Features::Raw, None).unwrap();
    dataset_conformance(&raw, &samples.into_iter().map(|sample| vec![sample]).collect::<Vec<_>>());
}

#[test]
fn features_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let floats = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
    let samples = [
        [example("i", &field(3, &field(1, &[7, 0x80, 0x02]))), example("f", &field(2, &field(1, &floats)))].concat(),
        example("t", &field(1, &field(1, "ö".as_bytes()))),
    ];
    let read = TfRecord::open(vec![put(&folder, &framed(&samples))], Features::Typed(fields()), None).unwrap();
    let floats = [1.5_f32, -2.0].map(f32::to_ne_bytes).concat();
    let expected =
        [[[7_i16, 256].map(i16::to_ne_bytes).concat(), floats, b"none".to_vec()], [vec![], vec![], "ö".into()]];
    let expected = expected.map(|sample| [&sample[..], &[vec![0; 6]]].concat());
    dataset_conformance(&read, &expected);
}

#[test]
fn lists_of_byte_strings_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let strings: Vec<u8> = ["ö", "", "b"].iter().flat_map(|text| field(1, text.as_bytes())).collect();
    let samples = [example("t", &field(1, &strings)), example("t", &field(1, &[])), vec![]];
    let list = |texts: &[&str]| {
        let length = |length: usize| (length as u32).to_ne_bytes();
        let items = texts.iter().flat_map(|text| [&length(text.len())[..], text.as_bytes()].concat());
        [&[0][..], &length(texts.len()), &[0]].concat().into_iter().chain(items).collect::<Vec<u8>>()
    };
    let kinds = [(TypedField::texts("t"), NestedType::Text), (TypedField::byte_strings("t"), NestedType::Bytes)];
    for (typed, item) in kinds {
        assert!(typed.clone().or(b"none".to_vec()).is_err(), "it is not a list");
        let typed = typed.or(list(&["none"])).unwrap();
        let path = put(&folder, &framed(&samples));
        let read = TfRecord::open(vec![path], Features::Typed(vec![typed]), None).unwrap();
        dataset_conformance(&read, &[list(&["ö", "", "b"]), list(&[]), list(&["none"])].map(|bytes| vec![bytes]));
        let texts = ["ö", "", "b"].map(|text| NestedValue::Bytes(text.as_bytes()));
        let list = list(&["ö", "", "b"]);
        assert_eq!(NestedType::List(Box::new(item)).value(&list), Some(NestedValue::List(texts.to_vec())));
    }
}

#[test]
fn bytes_are_elements_of_numbers_that_may_be_bools() {
    let folder = TempDir::new().unwrap();
    let open = |dtype, bytes: &[u8]| {
        let typed = TypedField::plain(Field::new("x", dtype, [2]));
        let path = put(&folder, &framed(&[example("x", &field(1, &field(1, bytes)))]));
        TfRecord::open(vec![path], Features::Typed(vec![typed]), None).unwrap()
    };
    dataset_conformance(&open(DType::Int16, &[7, 0, 0, 1]), &[vec![[7_i16, 256].map(i16::to_ne_bytes).concat()]]);
    dataset_conformance(&open(DType::Bool, &[0, 1]), &[vec![vec![0, 1]]]);
    let refused = |dtype, bytes: &[u8]| read_all(open(dtype, bytes)).unwrap_err().to_string();
    assert!(refused(DType::Bool, &[0, 2]).contains("neither 0 nor 1"));
    assert!(refused(DType::Int16, &[7, 0, 0]).contains("not a whole number of elements"));
}

#[test]
fn groups_are_skipped_to_a_depth_of_32() {
    let folder = TempDir::new().unwrap();
    let read = |depth: usize| {
        // A group within groups, in place of a feature that no field needs.
        let groups = [vec![9 << 3 | 3; depth], vec![9 << 3 | 4; depth]].concat();
        let sample = [groups, example("i", &field(3, &field(1, &[7])))].concat();
        read_all(TfRecord::open(vec![put(&folder, &framed(&[sample]))], Features::Typed(fields()), None).unwrap())
    };
    read(32).unwrap();
    assert!(read(33).unwrap_err().to_string().contains("groups are nested too deeply"));
}

proptest! {
    /// With correct checksums, so that they reach the parser.
    #[test]
    fn random_messages_are_read_or_refused(samples in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..5)) {
        let folder = TempDir::new().unwrap();
        let path = put(&folder, &framed(&samples));
        let _ = read_all(TfRecord::open(vec![path.clone()], Features::Typed(fields()), None).unwrap());
        if let Ok(inferred) = TfRecord::open(vec![path], Features::Inferred, None) {
            read_all(inferred).unwrap();
        }
    }

    #[test]
    fn damaged_messages_are_read_or_refused(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let floats = field(2, &[field(1, &[0; 8]), vec![1 << 3 | 5, 0, 0, 0, 0]].concat());
        let strings = [field(1, b"u"), field(1, b"v")].concat();
        let mut sample = [
            example("i", &field(3, &field(1, &[7, 0x80, 0x02]))),
            example("f", &floats),
            example("t", &field(1, &field(1, b"t"))),
            example("u", &field(1, &strings)),
        ]
        .concat();
        for (place, byte) in damage {
            let place = place.index(sample.len());
            sample[place] = byte;
        }
        let folder = TempDir::new().unwrap();
        let path = put(&folder, &framed(&[sample]));
        let _ = read_all(TfRecord::open(vec![path], Features::Typed(fields()), None).unwrap());
    }

    #[test]
    fn random_and_damaged_files_are_refused(
        bytes in prop::collection::vec(any::<u8>(), 1..60),
        place in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let folder = TempDir::new().unwrap();
        let refused = |bytes: &[u8]| match TfRecord::open(vec![put(&folder, bytes)], Features::Raw, None).and_then(read_all) {
            Err(Error::Format { path, .. }) => path.ends_with("x.tfrecord"),
            _ => false,
        };
        prop_assert!(refused(&bytes));
        let mut whole = framed(&[bytes.clone(), bytes]);
        let place = place.index(whole.len());
        whole[place] ^= 1 << bit;
        prop_assert!(refused(&whole));
    }
}
