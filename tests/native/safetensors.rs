//! Safetensors files: what is read, and what is rejected.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use sluicegate::{BatchWriter, Column, Dataset, Error, Safetensors};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn put(folder: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("x.safetensors");
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).unwrap();
    path
}

/// Returns a file of two tensors, the second of which is not aligned.
fn whole() -> Vec<u8> {
    let header = r#"{"b":{"dtype":"U8","shape":[3,1],"data_offsets":[0,3]},"__metadata__":{"k":"v"},
        "a":{"dtype":"F8_E5M2","shape":[3,2],"data_offsets":[3,9]}}  "#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(0..9);
    bytes
}

#[test]
fn tensors_keep_the_contract_by_name_and_by_choice() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, &whole());
    let rows = Safetensors::open(&path, None).unwrap();
    assert_eq!(rows.schema().to_string(), "(a: float8_e5m2[2], b: uint8[1])");
    let samples: Vec<_> = (0..3_u8).map(|row| vec![vec![3 + 2 * row, 4 + 2 * row], vec![row]]).collect();
    dataset_conformance(&rows, &samples);
    let one = Safetensors::open(&path, Some(&["b".into()])).unwrap();
    dataset_conformance(&one, &(0..3_u8).map(|row| vec![vec![row]]).collect::<Vec<_>>());
    let twice = Safetensors::open_all(&[path.clone(), path], None).unwrap();
    dataset_conformance(&twice, &[samples.clone(), samples].concat());
}

#[test]
fn every_data_type_of_whole_bytes_is_read() {
    let folder = TempDir::new().unwrap();
    let types = [
        ("BOOL", "bool", 1),
        ("U8", "uint8", 1),
        ("I8", "int8", 1),
        ("U16", "uint16", 2),
        ("I16", "int16", 2),
        ("U32", "uint32", 4),
        ("I32", "int32", 4),
        ("U64", "uint64", 8),
        ("I64", "int64", 8),
        ("F16", "float16", 2),
        ("BF16", "bfloat16", 2),
        ("F32", "float32", 4),
        ("F64", "float64", 8),
        ("C64", "complex64", 8),
        ("F8_E4M3", "float8_e4m3fn", 1),
        ("F8_E4M3FNUZ", "float8_e4m3fnuz", 1),
        ("F8_E5M2", "float8_e5m2", 1),
        ("F8_E5M2FNUZ", "float8_e5m2fnuz", 1),
        ("F8_E8M0", "float8_e8m0fnu", 1),
    ];
    for (name, dtype, bytes) in types {
        let header = format!(r#"{{"x":{{"dtype":"{name}","shape":[2],"data_offsets":[0,{}]}}}}"#, 2 * bytes);
        let data: Vec<u8> = [[0; 8], [1; 8]].iter().flat_map(|row| &row[..bytes]).copied().collect();
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        let rows = Safetensors::open(put(&folder, &file), None).unwrap();
        assert_eq!(rows.schema().to_string(), format!("(x: {dtype}[])"));
        dataset_conformance(&rows, &[vec![vec![0; bytes]], vec![vec![1; bytes]]]);
    }
}

#[test]
fn every_cut_is_an_error_of_the_format() {
    let folder = TempDir::new().unwrap();
    let whole = whole();
    for end in 0..whole.len() {
        let error = Safetensors::open(put(&folder, &whole[..end]), None).err().unwrap();
        assert!(matches!(error, Error::Format { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn damaged_tensors_are_refused_or_stay_within_the_file(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in prop::option::of(any::<u64>()),
    ) {
        let folder = TempDir::new().unwrap();
        let mut bytes = whole();
        for (place, byte) in cuts {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(length) = length {
            bytes[..8].copy_from_slice(&length.to_le_bytes());
        }
        if let Ok(rows) = Safetensors::open(put(&folder, &bytes), None) {
            prop_assert!(rows.len() <= 9);
            for index in 0..rows.len() {
                let sizes: Vec<usize> = rows.schema().fields().iter().map(sluicegate::Field::bytes).collect();
                prop_assert!(sizes.iter().sum::<usize>() <= 9);
                let mut room = vec![0; 16];
                let columns: Vec<_> = sizes.iter().scan(0, |offset, &bytes| {
                    *offset += bytes;
                    Some(Column::Fixed { offset: *offset - bytes, bytes_per_sample: bytes })
                }).collect();
                rows.read(index, &mut BatchWriter::new(&mut room, &columns, 1).sample(0)).unwrap();
            }
        }
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = TempDir::new().unwrap();
        prop_assert!(Safetensors::open(put(&folder, &bytes), None).is_err());
    }
}
