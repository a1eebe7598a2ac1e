//! Datasets without their broken samples, which keep the contract like any other.

use std::fs;
use std::path::PathBuf;

use sluicegate::{Csv, CsvHeader, Dataset, Error, Features, Folder, FolderOptions, JsonLines, TfRecord, WholeSamples};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn put(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn texts(lines: &[&str]) -> Vec<Vec<Vec<u8>>> {
    lines.iter().map(|line| vec![line.as_bytes().to_vec()]).collect()
}

/// Asserts that of `all` samples those at `left` remain, and which damage is reported for the others.
fn check<D: Dataset + 'static>(samples: &WholeSamples<D>, left: &[usize], all: usize, damages: &[&str]) {
    assert_eq!(samples.dataset().len(), all);
    let found: Vec<usize> = (0..samples.len()).map(|index| samples.index_in_all(index).unwrap()).collect();
    assert_eq!(found, left);
    assert!(matches!(samples.index_in_all(left.len()), Err(Error::IndexOutOfRange { .. })));
    assert_eq!(samples.whole_in(0..all), left.len());
    assert_eq!(samples.damages().len(), damages.len(), "{:?}", samples.damages());
    for (found, expected) in samples.damages().iter().zip(damages) {
        assert!(found.contains(expected), "{found} does not say {expected}");
    }
}

#[test]
fn broken_lines_and_rows_have_no_index() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "x", b"1\n{\n\n[2]\n\xff\n\"\xc3\xb6\"\n");
    let lines = JsonLines::open_whole(vec![path.clone(), path], None, None).unwrap();
    dataset_conformance(&lines, &texts(&["1", "[2]", "\"ö\"", "1", "[2]", "\"ö\""]));
    let damages = ["x, byte 2: ", "x, byte 9: not UTF-8", "x, byte 2: ", "x, byte 9: not UTF-8"];
    check(&lines, &[0, 2, 4, 5, 7, 9], 10, &damages);
    let path = put(&folder, "y", b"a\n1\nx\n2\n3,4\n\"5\n6\n");
    let rows = Csv::open_whole(vec![path], None, &[("a".into(), "0".into())], CsvHeader::FirstRow, b',', None).unwrap();
    dataset_conformance(&rows, &texts(&["1", "x", "2"]));
    check(&rows, &[0, 1, 2], 4, &["y, byte ", "y, byte 12: line 6: a quote is opened here and never closed"]);
}

#[test]
fn samples_whose_checksum_is_wrong_have_no_index() {
    let folder = TempDir::new().unwrap();
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let mut whole = Vec::new();
    for sample in [&b"one"[..], b"two", b"three", b"four"] {
        let length = (sample.len() as u64).to_le_bytes();
        whole.extend([&length[..], &masked(&length), sample, &masked(sample)].concat());
    }
    let two = whole.windows(3).position(|bytes| bytes == b"two").unwrap();
    whole[two] = b'T';
    let path = put(&folder, "x", &whole);
    let open = || TfRecord::open_whole(vec![path.clone()], Features::Raw, None).unwrap();
    dataset_conformance(&open(), &texts(&["one", "three", "four"]));
    check(&open(), &[0, 2, 3], 4, &["x, byte 31: the checksum of the 3 bytes"]);
    // Damages the length of the last sample, without which it cannot be found.
    let four = whole.windows(4).position(|bytes| bytes == b"four").unwrap();
    whole[four - 12] = 5;
    put(&folder, "x", &whole);
    check(&open(), &[0, 2], 3, &["x, byte 31: ", "x, byte 59: the checksum of the length"]);
}

#[test]
fn files_that_can_not_be_opened_have_no_index() {
    let folder = TempDir::new().unwrap();
    put(&folder, "a", b"1");
    std::os::unix::fs::symlink("nowhere", folder.path().join("b")).unwrap();
    put(&folder, "c", b"22");
    assert!(Folder::open(folder.path(), &FolderOptions::default()).is_err());
    let files = Folder::open_whole(folder.path(), &[PathBuf::new()], &FolderOptions::default()).unwrap();
    let expected = [("1", "a"), ("22", "c")].map(|(bytes, path)| vec![bytes.into(), path.into()]);
    dataset_conformance(&files, &expected);
    check(&files, &[0, 2], 3, &["/b: No such file"]);
}

#[test]
fn a_dataset_without_intact_samples_is_empty() {
    let folder = TempDir::new().unwrap();
    let lines = JsonLines::open_whole(vec![put(&folder, "x", b"?\n?\n")], None, None).unwrap();
    assert!(lines.is_empty());
    check(&lines, &[], 2, &["x, byte 0: ", "x, byte 2: "]);
}
