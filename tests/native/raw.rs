//! Files of samples of one size.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use sluicegate::{Concat, DType, Dataset, Error, Field, Raw, RawField};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn file(folder: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("x.bin");
    fs::write(&path, bytes).unwrap();
    path
}

fn fields() -> Vec<RawField> {
    vec![
        RawField::new(Field::new("pixels", DType::UInt8, [2, 2]), 3),
        RawField::new(Field::new("label", DType::UInt16, []), 0),
        RawField::new(Field::new("turned", DType::UInt16, [2]), 3).swapped(),
        RawField::new(Field::new("wave", DType::Complex64, []), 0).swapped(),
        RawField::new(Field::new("nothing", DType::Float64, [0, 3]), 8),
    ]
}

fn samples(bytes: &[u8], header: usize) -> Vec<Vec<Vec<u8>>> {
    let sample = |s: &[u8]| {
        let turned = vec![s[4], s[3], s[6], s[5]];
        let wave = vec![s[3], s[2], s[1], s[0], s[7], s[6], s[5], s[4]];
        vec![s[3..7].to_vec(), s[0..2].to_vec(), turned, wave, vec![]]
    };
    bytes[header..].chunks_exact(8).map(sample).collect()
}

#[test]
fn raw_files_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    for (header, len) in [(0, 5), (3, 4), (16, 1), (7, 0), (0, 0)] {
        let bytes: Vec<u8> = (0..header + len * 8).map(|byte| byte as u8).collect();
        let path = file(&folder, &bytes);
        let raw: Arc<dyn Dataset> = Arc::new(Raw::open(&path, header, 8, fields()).unwrap());
        dataset_conformance(&*raw, &samples(&bytes, header));
        let twice = Concat::new(vec![raw.clone(), raw]).unwrap();
        dataset_conformance(&twice, &[samples(&bytes, header), samples(&bytes, header)].concat());
    }
}

#[test]
fn files_that_end_inside_a_sample_are_refused_at_every_cut() {
    let folder = TempDir::new().unwrap();
    for bytes in 0..60_usize {
        let path = file(&folder, &vec![1; bytes]);
        let opened = Raw::open(&path, 10, 8, fields());
        if bytes >= 10 && (bytes - 10).is_multiple_of(8) {
            assert_eq!(opened.unwrap().len(), (bytes - 10) / 8);
            continue;
        }
        let error = opened.err().unwrap();
        assert!(matches!(error, Error::Format { .. }), "{error}");
        assert!(error.to_string().contains(&format!("the file has {bytes} bytes, but a header of 10")), "{error}");
    }
}

#[test]
fn fields_that_do_not_fit_into_a_sample_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, &[0; 16]);
    let field = |dtype, shape: &[usize], offset| vec![RawField::new(Field::new("x", dtype, shape), offset)];
    assert!(Raw::open(&path, 0, 8, field(DType::Int64, &[], 0)).is_ok());
    for fields in [
        field(DType::Int64, &[], 1),
        field(DType::UInt8, &[], usize::MAX),
        field(DType::Float32, &[1 << 40, 1 << 40], 0),
        vec![RawField::new(Field::variable("x", DType::UInt8, []), 0)],
    ] {
        assert!(matches!(Raw::open(&path, 0, 8, fields), Err(Error::InvalidArgument { argument: "dtype", .. })));
    }
    assert!(matches!(Raw::open(&path, 0, 0, vec![]), Err(Error::InvalidArgument { .. })));
    assert!(matches!(Raw::open(folder.path().join("nowhere"), 0, 8, vec![]), Err(Error::Io { .. })));
    assert!(matches!(Raw::open(folder.path(), 0, 8, vec![]), Err(Error::Io { .. } | Error::Format { .. })));
}

#[test]
fn a_file_that_is_cut_is_named_at_the_next_read() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, &[7; 80]);
    let raw = Arc::new(Raw::open(&path, 0, 8, fields()).unwrap());
    let loader = sluicegate::DataLoader::builder(raw).batch_size(10).build().unwrap();
    assert!(loader.epoch(0).unwrap().next().unwrap().is_ok());
    fs::File::options().write(true).open(&path).unwrap().set_len(40).unwrap();
    let error = loader.epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::Shrunk { expected: 80, found: 40, .. }), "{error}");
}
