//! Arrow record batches as a dataset, and batches as record batches.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, FixedSizeListBuilder, Int16Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Int16Type, Int32Type, UInt8Type};
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use sluicegate::internal::{self, Ragged, Segment};
use sluicegate::{
    Batch, ColumnarOptions, DType, DataLoader, Dataset, DatasetExt, Error, Field, FillValue, InMemory, NullRule,
    PadSamples, RecordBatches,
};

use crate::conformance::dataset_conformance;

fn rows(start: i32, rows: i32) -> RecordBatch {
    let (mut pairs, mut lists) =
        (FixedSizeListBuilder::new(Int16Builder::new(), 2), ListBuilder::new(Int16Builder::new()));
    for n in start..start + rows {
        pairs.values().append_slice(&[n as i16, -n as i16]);
        pairs.append(true);
        lists.append_value((0..n as i16 % 3).map(Some));
    }
    let texts = StringArray::from_iter_values((start..start + rows).map(|n| "ab".repeat(n as usize % 3)));
    let columns: [(&str, ArrayRef); 4] = [
        ("n", Arc::new(Int32Array::from_iter_values(start..start + rows))),
        ("pair", Arc::new(pairs.finish())),
        ("list", Arc::new(lists.finish())),
        ("text", Arc::new(texts)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn dataset() -> RecordBatches {
    RecordBatches::new([rows(0, 4), rows(4, 0), rows(4, 5)], &ColumnarOptions::default()).unwrap()
}

fn whole(dataset: impl Dataset + 'static) -> Batch {
    let samples = dataset.len();
    DataLoader::builder(dataset).batch_size(samples).build().unwrap().epoch(0).unwrap().next().unwrap().unwrap()
}

#[test]
fn rows_of_several_batches_are_one_dataset() {
    let dataset = dataset();
    assert_eq!((dataset.len(), dataset.kinds().len()), (9, 4));
    let bytes = |numbers: Vec<i16>| numbers.into_iter().flat_map(i16::to_ne_bytes).collect::<Vec<u8>>();
    let sample = |n: i32| {
        let (pair, list) = (vec![n as i16, -n as i16], (0..n as i16 % 3).collect());
        vec![n.to_ne_bytes().to_vec(), bytes(pair), bytes(list), "ab".repeat(n as usize % 3).into_bytes()]
    };
    dataset_conformance(&dataset, &(0..9).map(sample).collect::<Vec<_>>());
    let batch = whole(dataset);
    assert_eq!(batch.field("n").unwrap().view::<i32>().unwrap(), (0..9).collect::<Vec<_>>());
    assert_eq!(batch.field("list").unwrap().lengths().unwrap(), (0..9).map(|n| n % 3).collect::<Vec<usize>>());
    assert_eq!(batch.sample(3, 5), b"abab");
    assert_eq!(RecordBatches::new([rows(0, 0)], &ColumnarOptions::default()).unwrap().len(), 0);
}

#[test]
fn parts_of_a_batch_have_their_own_lists() {
    let mut flags = ListBuilder::new(BooleanBuilder::new());
    (0..20).for_each(|n| flags.append_value((0..n % 4).map(|at| Some((n + at) % 2 == 0))));
    let all = RecordBatch::try_from_iter([("flags", Arc::new(flags.finish()) as ArrayRef)]).unwrap();
    let parts = [all.slice(0, 7), all.slice(7, 0), all.slice(7, 12), all.slice(19, 1)];
    let dataset = RecordBatches::new(parts, &ColumnarOptions::default()).unwrap();
    let expected: Vec<_> = (0..20).map(|n| vec![(0..n % 4).map(|at| u8::from((n + at) % 2 == 0)).collect()]).collect();
    dataset_conformance(&dataset, &expected);
}

#[test]
fn a_batch_is_a_record_batch_and_back() {
    let out = whole(dataset()).into_record_batch().unwrap();
    assert_eq!(out.num_rows(), 9);
    let column = |name| out.column_by_name(name).unwrap();
    assert_eq!(column("n").as_primitive::<Int32Type>().values(), &(0..9).collect::<Vec<_>>()[..]);
    for row in 0..9 {
        let n = row as i16;
        let pair = column("pair").as_fixed_size_list().value(row);
        assert_eq!(pair.as_primitive::<Int16Type>().values(), &[n, -n]);
        let list = column("list").as_list::<i64>().value(row);
        assert_eq!(list.as_primitive::<Int16Type>().values(), &(0..n % 3).collect::<Vec<_>>()[..]);
        let text = column("text").as_list::<i64>().value(row);
        assert_eq!(text.as_primitive::<UInt8Type>().values(), "ab".repeat(row % 3).as_bytes());
    }
    let again = whole(RecordBatches::new([out.clone()], &ColumnarOptions::default()).unwrap());
    assert_eq!(again.into_record_batch().unwrap(), out);
}

#[test]
fn nothing_is_copied_and_the_columns_outlive_the_loader() {
    let batch = whole(InMemory::from_vec("x", (0..1000_i32).collect(), [5]).unwrap());
    let address = batch.bytes(0).as_ptr();
    let out = batch.into_record_batch().unwrap();
    let values = Arc::clone(out.column(0).as_fixed_size_list().values());
    drop(out);
    assert_eq!(values.as_primitive::<Int32Type>().values().as_ptr().cast(), address);
    assert!(values.as_primitive::<Int32Type>().values().iter().copied().eq(0..1000));
}

#[test]
fn axes_are_lists_in_lists_and_booleans_are_packed() {
    let of = |name: &str, dtype: DType, shape: &[usize], bytes: Vec<u8>| {
        let field = Field::new(name, dtype, &shape[1..]);
        let array = internal::Array::contiguous(Arc::new(Segment::from_vec(bytes)), 0, dtype.bytes(), shape).unwrap();
        InMemory::new(vec![(field, array)]).unwrap()
    };
    let flags = of("flag", DType::Bool, &[3, 1], vec![1, 0, 1]);
    let halves = of("half", DType::Float16, &[3], [1.0, 2.0, -0.5].map(half_bits).concat());
    let nothing = of("nothing", DType::Int64, &[3, 2, 0], Vec::new());
    let cubes = InMemory::from_vec("cube", (0..24_i16).collect(), [2, 4]).unwrap();
    let dataset = flags.zip(halves).unwrap().zip(nothing).unwrap().zip(cubes).unwrap();
    let out = whole(dataset).into_record_batch().unwrap();
    let flags = out.column(0).as_fixed_size_list().values();
    assert!(flags.as_boolean().values().iter().eq([true, false, true]));
    let halves = out.column(1).as_primitive::<Float16Type>().values();
    assert!(halves.iter().map(|half| half.to_f32()).eq([1.0, 2.0, -0.5]));
    assert_eq!((out.column(2).len(), out.column(2).as_fixed_size_list().value_length()), (3, 2));
    let DataType::FixedSizeList(rows, 2) = out.column(3).data_type() else { panic!("{}", out.schema()) };
    assert!(matches!(rows.data_type(), DataType::FixedSizeList(_, 4)));
    let last = out.column(3).as_fixed_size_list().value(2);
    let last = last.as_fixed_size_list().value(1);
    assert_eq!(last.as_primitive::<Int16Type>().values(), &[20, 21, 22, 23]);
}

/// Returns the bits of numbers that float16 represents exactly.
fn half_bits(number: f32) -> [u8; 2] {
    let bits = number.to_bits();
    let (sign, exponent) = ((bits >> 16) & 0x8000, ((bits >> 23) & 0xff) + 15 - 127);
    ((sign | exponent << 10) as u16).to_ne_bytes()
}

#[test]
fn padded_samples_come_with_their_padding() {
    let values = internal::Array::contiguous(Arc::new(Segment::from_vec(vec![1_i16, 2, 3])), 0, 2, &[3]).unwrap();
    let ragged = Ragged::new(Field::variable("x", DType::Int16, []), values, vec![0, 2, 3]).unwrap();
    let loader = DataLoader::builder(ragged).collate(Arc::new(PadSamples::new().field(0, [0, 0])));
    let batch = loader.batch_size(2).build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
    let out = batch.into_record_batch().unwrap();
    let values = out.column(0).as_fixed_size_list().values();
    assert_eq!(values.as_primitive::<Int16Type>().values(), &[1, 2, 3, 0]);
}

#[test]
fn unsupported_fields_are_refused_by_name() {
    let refused = |batches: Vec<RecordBatch>, options: &ColumnarOptions| {
        RecordBatches::new(batches, options).err().unwrap().to_string()
    };
    let all = ColumnarOptions::default();
    assert!(refused(Vec::new(), &all).contains("expected at least one batch"));
    let floats = RecordBatch::try_from_iter([("n", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]).unwrap();
    let some = ColumnarOptions { columns: Some(vec!["n".into()]), ..all.clone() };
    let error = refused(vec![rows(0, 2), floats], &some);
    assert!(error.contains("batch 1: column `n` is") && error.contains("in batch 0"), "{error}");
    let none = ColumnarOptions { columns: Some(vec!["m".into()]), ..all.clone() };
    assert!(refused(vec![rows(0, 2)], &none).contains('m'));

    let complex = internal::Array::contiguous(Arc::new(Segment::from_vec(vec![0_u8; 8])), 0, 8, &[1]).unwrap();
    let batch = whole(InMemory::new(vec![(Field::new("x", DType::Complex64, []), complex)]).unwrap());
    let error = batch.into_record_batch().unwrap_err().to_string();
    assert!(error.contains("`x` holds complex64, for which Arrow has no type"), "{error}");
}

#[test]
fn nulls_are_errors_unless_the_options_replace_them() {
    let nulls = Int32Array::from(vec![Some(1), None]);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(nulls) as ArrayRef)]).unwrap();
    let dataset = RecordBatches::new([batch.clone(), batch.clone()], &ColumnarOptions::default()).unwrap();
    let error = DataLoader::builder(dataset).batch_size(4).build().unwrap().epoch(0).unwrap().next().unwrap();
    match error {
        Err(Error::Sample { index: 1, field, reason }) => {
            assert!(field == "n" && reason.starts_with("row 1 of batch 0: it is null"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let filled = vec![(None, NullRule::Fill(FillValue::Int(-1)))];
    let filled = ColumnarOptions { nulls: filled, ..ColumnarOptions::default() };
    let batch = whole(RecordBatches::new([batch], &filled).unwrap());
    assert_eq!(batch.to_vec::<i32>(0).unwrap(), [1, -1]);
}
