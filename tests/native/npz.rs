//! `.npz` files: what is read, and what is rejected.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use sluicegate::{Dataset, Error, Npz};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::conformance::dataset_conformance;

/// Returns the `.npy` file of rows of bytes.
fn npy(rows: usize, row: usize, first: u8) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, {row})}}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(header.bytes());
    bytes.resize(128, b' ');
    bytes.extend((0..rows * row).map(|value| first + value as u8));
    bytes
}

fn put(folder: &TempDir, method: CompressionMethod) -> PathBuf {
    let path = folder.path().join("x.npz");
    let mut archive = ZipWriter::new(File::create(&path).unwrap());
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, contents) in [("b.npy", npy(3, 2, 10)), ("notes.txt", b"text".to_vec()), ("a.npy", npy(3, 1, 0))] {
        archive.start_file(name, options).unwrap();
        archive.write_all(&contents).unwrap();
    }
    archive.finish().unwrap();
    path
}

#[test]
fn arrays_keep_the_contract_by_name_and_by_choice() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let folder = TempDir::new().unwrap();
        let path = put(&folder, method);
        let rows = Npz::open(&path, None).unwrap();
        assert_eq!(rows.schema().to_string(), "(b: uint8[2], a: uint8[1])");
        let samples: Vec<_> = (0..3_u8).map(|row| vec![vec![10 + 2 * row, 11 + 2 * row], vec![row]]).collect();
        dataset_conformance(&rows, &samples);
        let one = Npz::open(&path, Some(&["a".into()])).unwrap();
        dataset_conformance(&one, &(0..3_u8).map(|row| vec![vec![row]]).collect::<Vec<_>>());
        let twice = Npz::open_all(&[path.clone(), path], None).unwrap();
        dataset_conformance(&twice, &[samples.clone(), samples].concat());
    }
}

#[test]
fn every_cut_is_an_error_of_the_format() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, CompressionMethod::Stored);
    let whole = fs::read(&path).unwrap();
    for end in 0..whole.len() {
        fs::remove_file(&path).unwrap();
        fs::write(&path, &whole[..end]).unwrap();
        let error = Npz::open(&path, None).err().unwrap();
        assert!(matches!(error, Error::Format { .. }), "{end}: {error}");
    }
}
