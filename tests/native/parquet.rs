//! Parquet files: what is read, and what is rejected.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use sluicegate::internal::{ColumnKind, Nesting};
use sluicegate::{
    Batch, BlockShuffleSampler, ColumnarOptions, DataLoader, Dataset, Error, FillValue, NestedType, NestedValue,
    NullRule, Parquet, ParquetFilter, ParquetOptions, Relation, Strings,
};
use tempfile::TempDir;

use crate::conformance::dataset_conformance;

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// Writes a file of these rows, in groups of `group` rows.
fn put(folder: &TempDir, name: &str, rows: &RecordBatch, group: usize) -> PathBuf {
    let path = folder.path().join(name);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    path
}

fn some_rows() -> RecordBatch {
    let numbers = Int64Array::from_iter_values(0..10);
    let texts = StringArray::from_iter_values((0..10).map(|n| "ab".repeat(n % 3)));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..10).map(|n| Some(vec![Some(n); n as usize % 4])));
    let flags = BooleanArray::from_iter((0..10).map(|n| Some(n % 2 == 1)));
    let inner = StructArray::try_from(vec![("flag", Arc::new(flags) as ArrayRef)]).unwrap();
    let names: DictionaryArray<Int32Type> = (0..10).map(|n| if n < 5 { "low" } else { "high" }).collect();
    rows(vec![
        ("n", Arc::new(numbers)),
        ("t", Arc::new(texts)),
        ("l", Arc::new(lists)),
        ("s", Arc::new(inner)),
        ("d", Arc::new(names)),
    ])
}

fn sample(n: i32) -> Vec<Vec<u8>> {
    vec![
        i64::from(n).to_ne_bytes().to_vec(),
        "ab".repeat(n as usize % 3).into_bytes(),
        n.to_ne_bytes().repeat(n as usize % 4),
        vec![u8::from(n % 2 == 1)],
        if n < 5 { b"low".to_vec() } else { b"high".to_vec() },
    ]
}

#[test]
fn columns_keep_the_contract_whatever_is_cached() {
    let folder = TempDir::new().unwrap();
    let paths = vec![put(&folder, "a", &some_rows(), 3), put(&folder, "b", &some_rows(), 100)];
    for cache_bytes in [None, Some(0), Some(150)] {
        let options = ParquetOptions { cache_bytes, ..ParquetOptions::default() };
        let dataset = Parquet::open(paths.clone(), options).unwrap();
        let schema = "(n: int64[], t: uint8[*], l: int32[*], s.flag: bool[], d: uint8[*])";
        assert_eq!(dataset.schema().to_string(), schema);
        assert_eq!(dataset.group_samples(), [3, 3, 3, 1, 10]);
        let kinds = [ColumnKind::Tensor, ColumnKind::Text, ColumnKind::List, ColumnKind::Tensor, ColumnKind::Text];
        assert_eq!(dataset.kinds(), kinds);
        let Nesting::Dict(parts) = dataset.nesting() else { panic!("a dict of columns") };
        assert_eq!(parts[3], ("s".into(), Nesting::Dict(vec![("flag".into(), Nesting::Field(3))])));
        let samples: Vec<_> = (0..10).chain(0..10).map(sample).collect();
        dataset_conformance(&dataset, &samples);
    }
}

#[test]
fn a_row_group_that_is_decoded_in_pieces_has_every_row() {
    let folder = TempDir::new().unwrap();
    let numbers = Int64Array::from_iter_values(0..150_000);
    let path = put(&folder, "a", &rows(vec![("n", Arc::new(numbers))]), 150_000);
    let dataset = Parquet::open(vec![path], ParquetOptions::default()).unwrap();
    assert_eq!(dataset.group_samples(), [150_000]);
    let loader = DataLoader::builder(Arc::new(dataset)).batch_size(10_000).build().unwrap();
    let found = loader.epoch(0).unwrap().flat_map(|batch| batch.unwrap().to_vec::<i64>(0).unwrap());
    assert!(found.eq(0..150_000));
}

#[test]
fn some_columns_of_some_rows_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "a", &some_rows(), 4);
    let filter = |column: &str, relation| ParquetFilter { column: column.into(), relation };
    let options = ParquetOptions {
        columns: ColumnarOptions {
            columns: Some(vec!["t".into(), "n".into()]),
            strings: Strings::Bytes,
            ..ColumnarOptions::default()
        },
        filter: vec![
            filter("n", Relation::GreaterOrEqual(FillValue::Float(1.5))),
            filter("s.flag", Relation::Equal(FillValue::Bool(true))),
            filter("d", Relation::In(vec![FillValue::Text("low".into()), FillValue::Text("high".into())])),
        ],
        ..ParquetOptions::default()
    };
    let dataset = Parquet::open(vec![path.clone(), path], options).unwrap();
    assert_eq!(dataset.kinds(), [ColumnKind::Raw, ColumnKind::Tensor]);
    let of = |n| sample(n)[..2].iter().rev().cloned().collect::<Vec<_>>();
    dataset_conformance(&dataset, &[3, 5, 7, 9, 3, 5, 7, 9].map(of));
}

/// Encodes one list of texts, as `NestedType` defines it.
fn texts(texts: &[&str]) -> Vec<u8> {
    let text = |text: &&str| [&(text.len() as u32).to_ne_bytes(), text.as_bytes()].concat();
    let texts_of = texts.iter().flat_map(text);
    [0].into_iter().chain((texts.len() as u32).to_ne_bytes()).chain([0]).chain(texts_of).collect()
}

#[test]
fn lists_of_texts_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let samples: Vec<Vec<&str>> = (0..10).map(|n| ["a", "", "\u{e9}\0"][..n % 4].to_vec()).collect();
    let mut lists = ListBuilder::new(StringBuilder::new());
    samples.iter().for_each(|sample| lists.append_value(sample.iter().copied().map(Some)));
    let path = put(&folder, "a", &rows(vec![("x", Arc::new(lists.finish()))]), 3);
    for cache_bytes in [None, Some(0)] {
        let options = ParquetOptions { cache_bytes, ..ParquetOptions::default() };
        let dataset = Parquet::open(vec![path.clone()], options).unwrap();
        assert_eq!(dataset.schema().to_string(), "(x: uint8[*])");
        let ColumnKind::Nested(values) = &dataset.kinds()[0] else { panic!("a nested column") };
        assert_eq!(**values, NestedType::List(Box::new(NestedType::Text)));
        let expected: Vec<_> = samples.iter().map(|sample| vec![texts(sample)]).collect();
        dataset_conformance(&dataset, &expected);
        for (sample, bytes) in samples.iter().zip(&expected) {
            let items = sample.iter().map(|text| NestedValue::Bytes(text.as_bytes())).collect();
            assert_eq!(values.value(&bytes[0]), Some(NestedValue::List(items)));
            // Neither a prefix nor anything after it is valid.
            assert!((0..bytes[0].len()).all(|end| values.value(&bytes[0][..end]).is_none()));
            assert_eq!(values.value(&[&bytes[0][..], &[0]].concat()), None);
        }
    }
}

#[test]
fn nulls_are_refused_filled_or_masked() {
    let folder = TempDir::new().unwrap();
    let rows = rows(vec![
        ("x", Arc::new(Float32Array::from(vec![Some(1.5), None]))),
        ("t", Arc::new(StringArray::from(vec![None, Some("b")]))),
    ]);
    let path = put(&folder, "a", &rows, 10);
    let open = |nulls: Vec<(Option<String>, NullRule)>| {
        let columns = ColumnarOptions { nulls, ..ColumnarOptions::default() };
        Parquet::open(vec![path.clone()], ParquetOptions { columns, ..ParquetOptions::default() })
    };
    let loader = DataLoader::builder(Arc::new(open(vec![]).unwrap())).batch_size(2).build().unwrap();
    let error = loader.epoch(0).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(&error, Error::Sample { index: 1, field, .. } if field == "x"), "{error}");
    assert!(error.to_string().contains("row 1 of "), "{error}");
    let one_and_a_half = 1.5_f32.to_ne_bytes().to_vec();
    let zero = vec![0; 4];
    let masked = open(vec![(None, NullRule::Mask)]).unwrap();
    assert_eq!(masked.schema().to_string(), "(x: float32[], x.valid: bool[], t: uint8[*])");
    assert_eq!(masked.kinds()[2], ColumnKind::OptionalText);
    dataset_conformance(
        &masked,
        &[vec![one_and_a_half.clone(), vec![1], vec![]], vec![zero, vec![0], b"\x01b".to_vec()]],
    );
    let fill = |value| NullRule::Fill(value);
    let filled = vec![(None, fill(FillValue::Int(2))), (Some("t".into()), fill(FillValue::Text("none".into())))];
    dataset_conformance(
        &open(filled).unwrap(),
        &[vec![one_and_a_half, b"none".to_vec()], vec![2_f32.to_ne_bytes().to_vec(), b"b".to_vec()]],
    );
    let error = open(vec![(Some("x".into()), fill(FillValue::Text("a".into())))]).err().unwrap();
    assert!(matches!(error, Error::InvalidArgument { argument: "columns", .. }), "{error}");
}

#[test]
fn elements_of_lists_are_masked() {
    let folder = TempDir::new().unwrap();
    let lists = vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![None, Some(2), Some(3)])];
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let path = put(&folder, "a", &rows(vec![("l", Arc::new(lists))]), 3);
    let columns = ColumnarOptions { nulls: vec![(None, NullRule::MaskElements)], ..ColumnarOptions::default() };
    let dataset = Parquet::open(vec![path], ParquetOptions { columns, ..ParquetOptions::default() }).unwrap();
    assert_eq!(dataset.schema().to_string(), "(l: int32[*], l.valid: bool[], l.valid_elements: bool[*])");
    assert_eq!(dataset.kinds(), [ColumnKind::List, ColumnKind::Tensor, ColumnKind::ListMask]);
    let sample = |numbers: &[i32], is_there: u8, present: &[u8]| {
        vec![numbers.iter().flat_map(|number| number.to_ne_bytes()).collect(), vec![is_there], present.to_vec()]
    };
    dataset_conformance(
        &dataset,
        &[sample(&[1, 0], 1, &[1, 0]), sample(&[], 0, &[]), sample(&[], 1, &[]), sample(&[0, 2, 3], 1, &[0, 1, 1])],
    );
    assert!(dataset.origin(3, 0).unwrap().starts_with("row 3 of "));
    assert_eq!(dataset.origin(4, 0), None);
}

#[test]
fn every_cut_is_an_error_of_the_format() {
    let folder = TempDir::new().unwrap();
    let whole = fs::read(put(&folder, "a", &some_rows(), 4)).unwrap();
    for end in (0..whole.len()).step_by(7) {
        fs::write(folder.path().join("cut"), &whole[..end]).unwrap();
        let error = Parquet::open(vec![folder.path().join("cut")], ParquetOptions::default()).err().unwrap();
        assert!(matches!(error, Error::Format { .. }), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damage_is_refused_or_read(flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8), 1..4)) {
        let folder = TempDir::new().unwrap();
        let mut bytes = fs::read(put(&folder, "a", &some_rows(), 4)).unwrap();
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1_u8 << bit;
        }
        fs::write(folder.path().join("b"), &bytes).unwrap();
        if let Ok(dataset) = Parquet::open(vec![folder.path().join("b")], ParquetOptions::default())
            && dataset.len() < 1000
        {
            let loader = DataLoader::builder(Arc::new(dataset)).batch_size(5).build().unwrap();
            let _ = loader.epoch(0).unwrap().take(10).try_for_each(|batch| batch.map(drop));
        }
    }
}

#[test]
fn data_read_once_is_read_by_pages() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    let numbers = Int64Array::from_iter_values(0..4000);
    let texts = StringArray::from_iter_values((0..4000).map(|n| n.to_string()));
    let rows = rows(vec![("n", Arc::new(numbers)), ("t", Arc::new(texts))]);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1000))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(20)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let not = Relation::NotIn((0..4000).step_by(3).map(FillValue::Int).collect());
    for filter in [vec![], vec![ParquetFilter { column: "n".into(), relation: not }]] {
        let left: Vec<i64> = (0..4000).filter(|n| filter.is_empty() || n % 3 != 0).collect();
        let options = ParquetOptions { filter, cache_bytes: Some(20_000), ..ParquetOptions::default() };
        let dataset = Arc::new(Parquet::open(vec![path.clone()], options).unwrap());
        assert_eq!(dataset.len(), left.len());
        let loader = DataLoader::builder(Arc::clone(&dataset)).batch_size(3).shuffle(5).build().unwrap();
        for batch in loader.epoch(0).unwrap().with_ids() {
            let (batch, ids) = batch.unwrap();
            let expected: Vec<i64> = ids.indices.iter().map(|&index| left[index]).collect();
            assert_eq!(batch.to_vec::<i64>(0).unwrap(), expected);
            let texts = (0..expected.len()).map(|row| String::from_utf8(batch.sample(1, row).to_vec()).unwrap());
            assert!(texts.eq(expected.iter().map(i64::to_string)));
        }
        let info = dataset.cache_info();
        assert!(info.decoded_in_part > info.decoded, "{info:?}");
    }
}

#[test]
fn block_shuffling_decodes_each_filtered_row_group_once() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "a", &rows(vec![("n", Arc::new(Int64Array::from_iter_values(0..10_000)) as _)]), 200);
    // An increasing share of each group.
    let left: Vec<i64> = (0..10_000).filter(|n| n % 200 <= n / 50).collect();
    let relation = Relation::In(left.iter().map(|&n| FillValue::Int(n.into())).collect());
    let filter = vec![ParquetFilter { column: "n".into(), relation }];
    let open = |cache_bytes| {
        let options = ParquetOptions { filter: filter.clone(), cache_bytes, ..ParquetOptions::default() };
        Arc::new(Parquet::open(vec![path.clone()], options).unwrap())
    };
    let read = |dataset: &Arc<Parquet>| {
        let sampler = BlockShuffleSampler::with_blocks(dataset.group_samples(), 4, 7).unwrap();
        let dataset = Arc::clone(dataset) as Arc<dyn Dataset>;
        let loader = DataLoader::builder(dataset).batch_size(50).sampler(Arc::new(sampler)).build().unwrap();
        let batches = loader.epoch(0).unwrap().map(|batch| batch.unwrap().to_vec::<i64>(0).unwrap());
        let mut read: Vec<i64> = batches.flatten().collect();
        read.sort_unstable();
        assert_eq!(read, left);
    };
    let all = open(None);
    read(&all);
    assert_eq!((all.cache_info().decoded, all.cache_info().blocks), (50, 50));
    // A window is at most as large as its four last groups, which are the largest.
    let groups = all.group_samples();
    let largest = groups[46..].iter().sum::<usize>() * all.cache_info().bytes / left.len();
    let some = open(Some(largest + 4 * 64));
    read(&some);
    assert_eq!(some.cache_info().decoded, 50);
    let few = open(Some(largest / 4));
    read(&few);
    assert!(few.cache_info().decoded + few.cache_info().decoded_in_part > 150, "{:?}", few.cache_info());
}

#[test]
fn a_prefetched_damaged_row_group_fails_only_its_own_batches() {
    let folder = TempDir::new().unwrap();
    let path = put(&folder, "a", &rows(vec![("n", Arc::new(Int64Array::from_iter_values(0..4000)) as _)]), 400);
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let (start, bytes) = reader.metadata().row_group(6).column(0).byte_range();
    let mut file = fs::read(&path).unwrap();
    file[start as usize..][..bytes as usize].fill(0xff);
    fs::write(&path, file).unwrap();
    let read = |threads| -> Vec<std::result::Result<Vec<i64>, String>> {
        let dataset = Parquet::open(vec![path.clone()], ParquetOptions::default()).unwrap();
        let loader = DataLoader::builder(Arc::new(dataset)).batch_size(100).threads(threads).build().unwrap();
        let values = |batch: sluicegate::Result<Batch>| batch.and_then(|batch| batch.to_vec::<i64>(0));
        loader.epoch(0).unwrap().map(|batch| values(batch).map_err(|error| error.to_string())).collect()
    };
    let expected = read(0);
    for (number, batch) in expected.iter().enumerate() {
        match batch {
            Ok(values) => {
                let first = number as i64 * 100;
                assert!(number / 4 != 6 && values.iter().copied().eq(first..first + 100));
            }
            Err(reason) => assert!(number / 4 == 6 && reason.contains("row group 6: column `n`"), "{reason}"),
        }
    }
    assert_eq!(expected.len(), 40);
    for threads in 1..4 {
        assert_eq!(read(threads), expected, "{threads} threads");
    }
}

#[test]
fn schema_metadata_is_found_by_key() {
    let folder = TempDir::new().unwrap();
    let metadata = HashMap::from([("key".to_owned(), "value".to_owned())]);
    let schema = some_rows().schema().as_ref().clone().with_metadata(metadata);
    let path = put(&folder, "a.parquet", &some_rows().with_schema(Arc::new(schema)).unwrap(), 5);
    assert_eq!(Parquet::metadata(path.clone(), "key").unwrap().as_deref(), Some("value"));
    assert_eq!(Parquet::metadata(path, "other").unwrap(), None);
    assert!(matches!(Parquet::metadata(folder.path().join("none"), "key"), Err(Error::Io { .. })));
}
