//! Arrow files and streams: what is read, and what is rejected.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringDictionaryBuilder, UInt8Builder};
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray, StructArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use proptest::prelude::*;
use sluicegate::{Arrow, ColumnarOptions, Dataset, Error};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

const CACHE: usize = 1 << 20;

/// Returns `rows` rows from `start` on.
fn rows(start: i32, rows: i32) -> RecordBatch {
    let numbers = Int32Array::from_iter_values(start..start + rows);
    let flags = BooleanArray::from_iter((start..start + rows).map(|n| Some(n % 3 == 0)));
    let texts = StringArray::from_iter_values((start..start + rows).map(|n| "ab".repeat(n as usize % 3)));
    let mut lists = ListBuilder::new(UInt8Builder::new());
    // The dictionary of the second batch has the values of the first, and one more.
    let mut keys = StringDictionaryBuilder::<Int8Type>::new();
    for key in ["low", "high"].iter().take(1 + usize::from(start > 0)) {
        keys.append_value(key);
    }
    for n in start..start + rows {
        lists.append_value((0..n as u8 % 4).map(Some));
        keys.append_value(if n < 5 { "low" } else { "high" });
    }
    let keys = keys.finish();
    let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("flag", Arc::new(flags))];
    let inner = StructArray::try_from(columns.to_vec()).unwrap();
    let skipped = (keys.len() - rows as usize, rows as usize);
    let keys = arrow_array::Array::slice(&keys, skipped.0, skipped.1);
    let columns: [(&str, ArrayRef); 4] =
        [("inner", Arc::new(inner)), ("text", Arc::new(texts)), ("list", Arc::new(lists.finish())), ("key", keys)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn sample(n: i32) -> Vec<Vec<u8>> {
    vec![
        n.to_ne_bytes().to_vec(),
        vec![u8::from(n % 3 == 0)],
        "ab".repeat(n as usize % 3).into_bytes(),
        (0..n as u8 % 4).collect(),
        if n < 5 { b"low".to_vec() } else { b"high".to_vec() },
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    File,
    Stream,
}

fn put(folder: &TempDir, form: Form, compression: Option<CompressionType>, batches: &[RecordBatch]) -> PathBuf {
    let path = folder.path().join("a.arrow");
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let options = options.with_dictionary_handling(DictionaryHandling::Delta);
    let (file, schema) = (File::create(&path).unwrap(), batches[0].schema());
    match form {
        Form::File => {
            let mut writer = FileWriter::try_new_with_options(file, &schema, options).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
        Form::Stream => {
            let mut writer = StreamWriter::try_new_with_options(file, &schema, options).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
    }
    path
}

fn open(path: &Path) -> sluicegate::Result<Arrow> {
    Arrow::open(vec![path.to_path_buf()], &ColumnarOptions::default(), CACHE)
}

#[test]
fn files_and_streams_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    for form in [Form::File, Form::Stream] {
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let path = put(&folder, form, compression, &[rows(0, 5), rows(5, 0), rows(5, 4), rows(9, 1)]);
            let dataset = open(&path).unwrap();
            let expected = "(inner.n: int32[], inner.flag: bool[], text: uint8[*], list: uint8[*], key: uint8[*])";
            assert_eq!(dataset.schema().to_string(), expected);
            assert_eq!(dataset.block_sizes().collect::<Vec<_>>(), [5, 0, 4, 1]);
            dataset_conformance(&dataset, &(0..10).map(sample).collect::<Vec<_>>());
            // Unpacked data is not cached.
            let dataset = Arrow::open(vec![path.clone(), path], &ColumnarOptions::default(), 0).unwrap();
            dataset_conformance(&dataset, &(0..10).chain(0..10).map(sample).collect::<Vec<_>>());
        }
    }
}

#[test]
fn columns_by_choice() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, Form::File, None, &[rows(0, 5), rows(5, 4)]);
    let options = ColumnarOptions { columns: Some(vec!["key".into(), "inner.flag".into()]), ..Default::default() };
    let dataset = Arrow::open(vec![path.clone()], &options, CACHE).unwrap();
    let samples: Vec<_> = (0..9).map(|n| vec![sample(n)[4].clone(), sample(n)[1].clone()]).collect();
    dataset_conformance(&dataset, &samples);
    let options = ColumnarOptions { columns: Some(vec!["y".into()]), ..Default::default() };
    let error = Arrow::open(vec![path], &options, CACHE).err().unwrap().to_string();
    assert!(error.contains("a.arrow: there is no column `y`"), "{error}");
}

#[test]
fn non_arrow_files_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.arrow");
    let contents: [(&[u8], &str); 5] = [
        (b"", "truncated, or not an Arrow file"),
        (b"FEA1....", "Feather 1"),
        (b"PAR1....", "Parquet"),
        (b"ARROW1\0\0....ARROW1", "declares a footer of"),
        (b"some ordinary text", "neither an Arrow file nor an Arrow stream"),
    ];
    for (content, words) in contents {
        fs::write(&path, content).unwrap();
        let error = open(&path).err().unwrap();
        assert!(matches!(&error, Error::Format { path: of, .. } if *of == path), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn truncating_a_file_while_reading_is_an_error() {
    let folder = TempDir::new().unwrap();
    for form in [Form::File, Form::Stream] {
        let path = put(&folder, form, None, &[rows(0, 100), rows(100, 100)]);
        let dataset = open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        let mut sizes = sluicegate::Sizes::new(dataset.schema(), 1);
        let error = dataset.as_variable().unwrap().sizes(&[150], &mut sizes.writer()).unwrap_err();
        assert!(matches!(&error, Error::Changed { path: of, .. } if *of == path), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_is_an_error_or_changes_values(place in any::<prop::sample::Index>(), bit in 0_u8..8, is_cut: bool) {
        let folder = TempDir::new().unwrap();
        for form in [Form::File, Form::Stream] {
            let path = put(&folder, form, Some(CompressionType::LZ4_FRAME), &[rows(0, 5), rows(5, 4)]);
            let mut content = fs::read(&path).unwrap();
            let place = place.index(content.len());
            if is_cut { content.truncate(place) } else { content[place] ^= 1 << bit }
            fs::write(&path, &content).unwrap();
            let Ok(dataset) = open(&path) else { continue };
            for index in 0..dataset.len().min(20) {
                let mut sizes = sluicegate::Sizes::new(dataset.schema(), 1);
                let Some(variable) = dataset.as_variable() else { continue };
                if let Err(error) = variable.sizes(&[index], &mut sizes.writer()) {
                    prop_assert!(error.to_string().contains("a.arrow"), "{error}");
                }
            }
        }
    }
}

#[test]
fn schema_metadata_is_found_by_key() {
    let folder = TempDir::new().unwrap();
    let metadata = HashMap::from([("key".to_owned(), "value".to_owned())]);
    let schema = rows(0, 3).schema().as_ref().clone().with_metadata(metadata);
    let rows = rows(0, 3).with_schema(Arc::new(schema)).unwrap();
    for form in [Form::File, Form::Stream] {
        let path = put(&folder, form, None, std::slice::from_ref(&rows));
        assert_eq!(Arrow::metadata(path.clone(), "key").unwrap().as_deref(), Some("value"));
        assert_eq!(Arrow::metadata(path, "other").unwrap(), None);
    }
}
