//! `.npy` files: what is read, and what is rejected with which message.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{Concat, DType, DataLoader, Dataset, Error, Npy, Stack, Subset};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

/// Returns a file of `version` with this header and data, padded as NumPy does.
fn npy(version: u8, descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    literal(version, &format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"), data)
}

fn literal(version: u8, text: &str, data: &[u8]) -> Vec<u8> {
    let prefix = if version == 1 { 10 } else { 12 };
    let padded = (prefix + text.len() + 1).next_multiple_of(64) - prefix;
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((padded as u16).to_le_bytes()),
        _ => bytes.extend((padded as u32).to_le_bytes()),
    }
    bytes.extend(text.as_bytes());
    bytes.resize(prefix + padded - 1, b' ');
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

fn open(folder: &TempDir, bytes: &[u8]) -> sluicegate::Result<Npy> {
    let path = folder.path().join("x.npy");
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).unwrap();
    Npy::open("x", path)
}

/// Asserts that `bytes` are rejected as an invalid format, with a message that contains `words`.
fn refused(bytes: &[u8], words: &[&str]) {
    let folder = TempDir::new().unwrap();
    let error = open(&folder, bytes).err().unwrap_or_else(|| panic!("{words:?} was read"));
    assert!(matches!(error, Error::Format { .. }), "{error:?}");
    let message = error.to_string();
    assert!(words.iter().chain(&["x.npy"]).all(|word| message.contains(word)), "{message}\ndoes not say {words:?}");
}

fn bytes_to(end: usize) -> Vec<u8> {
    (0..end).map(|byte| byte as u8).collect()
}

const NATIVE: char = if cfg!(target_endian = "little") { '<' } else { '>' };
const FOREIGN: char = if cfg!(target_endian = "little") { '>' } else { '<' };

#[test]
fn every_data_type_and_version_keeps_the_contract() {
    let types = [
        ("|b1", DType::Bool),
        ("|u1", DType::UInt8),
        ("|i1", DType::Int8),
        ("u2", DType::UInt16),
        ("i2", DType::Int16),
        ("u4", DType::UInt32),
        ("i4", DType::Int32),
        ("u8", DType::UInt64),
        ("i8", DType::Int64),
        ("f2", DType::Float16),
        ("f4", DType::Float32),
        ("f8", DType::Float64),
        ("c8", DType::Complex64),
        ("c16", DType::Complex128),
    ];
    let folder = TempDir::new().unwrap();
    for (name, dtype) in types {
        let descr = if name.starts_with('|') { format!("'{name}'") } else { format!("'{NATIVE}{name}'") };
        for version in 1..=3 {
            let data = bytes_to(5 * 3 * dtype.bytes());
            let dataset = open(&folder, &npy(version, &descr, "False", "(5, 3)", &data)).unwrap();
            assert_eq!(dataset.schema().to_string(), format!("(x: {dtype}[3])"));
            let samples: Vec<_> = data.chunks(3 * dtype.bytes()).map(|row| vec![row.to_vec()]).collect();
            dataset_conformance(&dataset, &samples);
        }
    }
}

#[test]
fn both_orders_of_axes_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let (rows, height, width) = (4, 3, 2);
    let dataset = open(&folder, &npy(1, "'|u1'", "True", "(4, 3, 2)", &bytes_to(24))).unwrap();
    let element = |row: usize, y: usize, x: usize| (row + rows * (y + height * x)) as u8;
    let image = |row| (0..height).flat_map(|y| (0..width).map(move |x| element(row, y, x))).collect::<Vec<u8>>();
    dataset_conformance(&dataset, &(0..rows).map(|row| vec![image(row)]).collect::<Vec<_>>());
}

#[test]
fn rows_of_every_kind_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let of = |shape: &str, data: &[u8]| open(&folder, &npy(1, "'|u1'", "False", shape, data)).unwrap();
    dataset_conformance(&of("(3,)", &[1, 2, 3]), &[vec![vec![1]], vec![vec![2]], vec![vec![3]]]);
    dataset_conformance(&of("(0, 3)", &[]), &[]);
    dataset_conformance(&of("(2, 0)", &[]), &[vec![vec![]], vec![vec![]]]);
    // Data after the array is ignored, and Python 2 wrote its integers this way.
    dataset_conformance(&of("(2L, 1L)", &[1, 2, 3, 4]), &[vec![vec![1]], vec![vec![2]]]);
}

#[test]
fn files_nest_as_any_dataset() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        Arc::new(Npy::open(name, path).unwrap()) as Arc<dyn Dataset>
    };
    let images = file("image", &npy(1, "'|u1'", "False", "(4, 2)", &bytes_to(8)));
    let labels = file("label", &npy(1, "'|i1'", "False", "(4,)", &[9, 8, 7, 6]));
    let both: Arc<dyn Dataset> = Arc::new(Stack::new(vec![("a".into(), images), ("b".into(), labels)]).unwrap());
    let twice = Concat::new(vec![Arc::new(Subset::new(Arc::clone(&both), vec![3, 1]).unwrap()), both]).unwrap();
    let sample = |row: u8| vec![vec![2 * row, 2 * row + 1], vec![9 - row]];
    dataset_conformance(&twice, &[3, 1, 0, 1, 2, 3].map(sample));
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let folder = TempDir::new().unwrap();
    for version in [1, 2] {
        let whole = npy(version, "'|u1'", "False", "(20, 3)", &bytes_to(60));
        assert!(open(&folder, &whole).is_ok());
        for end in 0..whole.len() {
            let error = open(&folder, &whole[..end]).err().unwrap_or_else(|| panic!("cut at {end}"));
            assert!(matches!(error, Error::Format { .. }), "cut at {end}: {error:?}");
        }
        refused(
            &whole[..whole.len() - 1],
            &["truncated", "(uint8)", "[20, 3]", "needs"].map(|w| w.trim_matches(['(', ')'])),
        );
    }
}

#[test]
fn non_numeric_arrays_are_refused_with_a_remedy() {
    refused(b"", &["not a .npy file", "numpy.save"]);
    refused(b"PK\x03\x04 a zip archive", &["zip archive", ".npz", "NpzDataset"]);
    refused(&npy(1, "'|O'", "False", "(2,)", &[0; 16]), &["Python objects"]);
    refused(&npy(1, "[('a', '<f4'), ('b', '<i8')]", "False", "(2,)", &[0; 24]), &["structured"]);
    refused(&npy(1, &format!("'{FOREIGN}f4'"), "False", "(2,)", &[0; 8]), &["byte order", "newbyteorder"]);
    for unknown in ["<U3", "|S5", "<M8[ns]", "|V4", "<f16", "", "<", "f", "é8"] {
        refused(&npy(1, &format!("'{unknown}'"), "False", "(2,)", &[0; 64]), &["torch has no data type"]);
    }
    refused(&npy(1, "'|u1'", "False", "()", &[1]), &["scalar"]);
    refused(&npy(4, "'|u1'", "False", "(1,)", &[1]), &["version 4", "not supported"]);
    refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", &["the header has 4294967295 bytes"]);
    refused(
        &literal(1, "\u{fffd}", &[]).iter().map(|byte| if *byte == 0xef { 0xff } else { *byte }).collect::<Vec<_>>(),
        &["not text"],
    );
    refused(&literal(1, "{}", &[]), &["no valid descr"]);
    refused(&literal(1, "{'descr': '|u1', 'fortran_order': 1, 'shape': (1,)}", &[1]), &["no valid fortran_order"]);
}

#[test]
fn wrong_shapes_are_refused() {
    for order in ["False", "True"] {
        refused(&npy(1, "'|u1'", order, "(1000000, 1000000)", &[0; 100]), &["truncated"]);
        let overflowing = [
            "(4294967296, 4294967296)",
            "(18446744073709551615, 2)",
            "(0, 4294967296, 4294967296)",
            "(4294967296, 4294967296, 0)",
            "(18446744073709551615,)",
        ];
        for shape in overflowing {
            refused(&npy(1, "'|f8'", order, shape, &[0; 100]), &["too large for any memory"]);
        }
        for shape in ["(-1, 2)", "(2.0,)", "(99999999999999999999,)", "(a,)", "(3, 4", "[3, 4]", "(3 4)"] {
            refused(&npy(1, "'|u1'", order, shape, &[0; 100]), &["no valid shape"]);
        }
    }
}

#[test]
fn os_errors_are_reported_with_the_path() {
    let folder = TempDir::new().unwrap();
    let error = Npy::open("x", folder.path().join("gone.npy")).err().unwrap();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound), "{error:?}");
    assert!(error.to_string().contains("gone.npy"), "{error}");
    let error = Npy::open("x", folder.path()).err().unwrap();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::IsADirectory),
        "{error:?}"
    );
}

#[test]
fn a_file_that_shrinks_is_found_at_the_next_batch() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.npy");
    for threads in [0, 2] {
        fs::write(&path, npy(1, "'|u1'", "False", "(100, 3)", &bytes_to(300))).unwrap();
        let loader = loader(&path, threads);
        let mut batches = loader.epoch(0).unwrap();
        assert!(batches.next().unwrap().is_ok());
        OpenOptions::new().write(true).open(&path).unwrap().set_len(200).unwrap();
        // Batches that were fetched ahead are still valid; everything after is rejected, and the loader continues to
        // the end.
        let rest: Vec<_> = batches.collect();
        assert_eq!(rest.len(), 99);
        let last = rest.last().unwrap().as_ref().err().unwrap();
        assert!(matches!(last, Error::Shrunk { found: 200, .. }), "{last:?}");
        assert!(last.to_string().contains("x.npy shrank since it was opened"), "{last}");
        assert!(rest.iter().filter(|batch| batch.is_ok()).count() <= 2 * threads);
    }
}

fn loader(path: &Path, threads: usize) -> DataLoader {
    DataLoader::builder(Arc::new(Npy::open("x", path).unwrap())).threads(threads).build().unwrap()
}

#[test]
fn an_unlinked_file_stays_readable_and_a_replaced_one_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.npy");
    fs::write(&path, npy(1, "'|u1'", "False", "(4,)", &[1, 2, 3, 4])).unwrap();
    let dataset = Npy::open("x", &path).unwrap();
    let loader = loader(&path, 1);
    fs::remove_file(&path).unwrap();
    dataset_conformance(&dataset, &[1, 2, 3, 4].map(|value| vec![vec![value]]));
    File::create(&path).unwrap().write_all(b"something else").unwrap();
    let error = loader.epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(error.to_string().contains("x.npy changed while it was in use: it was replaced"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_damage_to_the_header_makes_it_panic_or_read_past_the_file(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(b'9'), Just(b'0')]), 1..6),
        fortran_order in any::<bool>(),
    ) {
        let order = if fortran_order { "True" } else { "False" };
        let mut bytes = npy(1, "'|u1'", order, "(00006, 00002, 00002)", &bytes_to(24));
        let header = bytes.len() - 24;
        for (place, byte) in &changes {
            bytes[place.index(header)] = *byte;
        }
        let folder = TempDir::new().unwrap();
        if let Ok(dataset) = open(&folder, &bytes) {
            // Whatever length it now declares, the declared rows exist.
            let batch = DataLoader::builder(Arc::new(dataset)).batch_size(1000).build().unwrap().epoch(0).unwrap().next();
            prop_assert!(batch.is_none_or(|batch| batch.is_ok()));
        }
    }
}
