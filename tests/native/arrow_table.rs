//! Tables in memory: values of all supported layouts, and those that are left to others.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float16Type, Int16Type, Int32Type, UInt8Type};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, Float64Array, LargeBinaryArray,
    LargeListArray, LargeStringArray, ListArray, PrimitiveArray, RecordBatch, StringArray,
};
use sluicegate::internal::{ArrowTable, Step, TableValue};

use crate::conformance::dataset_conformance;

/// Returns the table of a column in two batches, the second without its first row.
fn table(column: ArrayRef, item: Option<usize>, value: TableValue) -> Option<ArrowTable> {
    let rows = column.len();
    let whole = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let batches = [whole.clone(), whole.slice(1, rows - 1)].into_iter().map(Ok);
    let path = [Step::Part("x".into())].into_iter().chain(item.map(Step::Item)).collect();
    ArrowTable::new(batches, &[("x".into(), path, value)]).unwrap()
}

/// Asserts that the rows of `column` are `rows`.
fn assert_rows(column: impl arrow_array::Array + 'static, value: TableValue, rows: &[Vec<u8>]) {
    let table = table(Arc::new(column), None, value).unwrap();
    let expected: Vec<_> = rows.iter().chain(&rows[1..]).map(|row| vec![row.clone()]).collect();
    dataset_conformance(&table, &expected);
}

fn int64(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

#[test]
fn numbers_become_int64_float32_or_bool() {
    let float32 = |numbers: &[f32]| numbers.iter().map(|number| number.to_ne_bytes().to_vec()).collect::<Vec<_>>();
    let half = |bits: &u16| <Float16Type as ArrowPrimitiveType>::Native::from_bits(*bits);
    let halves = [0, 0x8000, 0x3e00, 0x8001, 0x7bff, 0xfc00].iter().map(half);
    let expected = float32(&[0.0, -0.0, 1.5, -(2_f32.powi(-24)), 65504.0, f32::NEG_INFINITY]);
    assert_rows(PrimitiveArray::<Float16Type>::from_iter_values(halves), TableValue::Numbers, &expected);
    let expected = float32(&[0.1, -2.5]);
    assert_rows(Float64Array::from_iter_values([0.1, -2.5]), TableValue::Numbers, &expected);
    let small = PrimitiveArray::<UInt8Type>::from_iter_values([7, 255]);
    assert_rows(small, TableValue::Numbers, &[int64(&[7]), int64(&[255])]);
    assert_rows(BooleanArray::from(vec![true, false]), TableValue::Numbers, &[vec![1], vec![0]]);
}

#[test]
fn lists_become_arrays_items_or_rows_of_any_length() {
    let pairs = || {
        let rows = [[1, 2], [3, 4], [5, 6]].map(|row| Some(row.map(Some)));
        FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(rows, 2)
    };
    let expected = [[1, 2], [3, 4], [5, 6]].map(|row| int64(&row));
    assert_rows(pairs(), TableValue::Numbers, &expected);
    assert_rows(pairs(), TableValue::Lists, &expected);
    let second = table(Arc::new(pairs()), Some(1), TableValue::Numbers).unwrap();
    dataset_conformance(&second, &[2, 4, 6, 4, 6].map(|number| vec![int64(&[number])]));
    let rows: [&[i64]; 4] = [&[3, -1], &[], &[2], &[1, 2, 3]];
    let narrow = rows.map(|row| Some(row.iter().map(|&number| Some(number as i32))));
    let expected = rows.map(int64);
    assert_rows(ListArray::from_iter_primitive::<Int32Type, _, _>(narrow), TableValue::Lists, &expected);
    let wide = || {
        LargeListArray::from_iter_primitive::<Int16Type, _, _>(
            rows.map(|row| Some(row.iter().map(|&number| Some(number as i16)))),
        )
    };
    assert_rows(wide(), TableValue::Lists, &expected);
    assert_rows(wide(), TableValue::Ones, &rows.map(|row| int64(&vec![1; row.len()])));
}

#[test]
fn strings_of_every_layout_are_bytes() {
    let texts = ["ab", "", "c\0"];
    let expected = texts.map(|text| text.as_bytes().to_vec());
    let bytes = || texts.iter().map(|text| text.as_bytes());
    assert_rows(StringArray::from_iter_values(texts), TableValue::Bytes, &expected);
    assert_rows(LargeStringArray::from_iter_values(texts), TableValue::Bytes, &expected);
    assert_rows(BinaryArray::from_iter_values(bytes()), TableValue::Bytes, &expected);
    assert_rows(LargeBinaryArray::from_iter_values(bytes()), TableValue::Bytes, &expected);
    let fixed = FixedSizeBinaryArray::try_from_iter([b"ab", b"\0\0", b"c\0"].into_iter()).unwrap();
    assert_rows(fixed.clone(), TableValue::Bytes, &[b"ab".to_vec(), b"\0\0".to_vec(), b"c\0".to_vec()]);
    assert_rows(fixed, TableValue::BytesWithoutZeros, &[b"ab".to_vec(), Vec::new(), b"c".to_vec()]);
}

#[test]
fn columns_with_nulls_are_left_to_others() {
    let numbers = PrimitiveArray::<Int32Type>::from_iter([Some(1), None]);
    assert!(table(Arc::new(numbers), None, TableValue::Numbers).is_none());
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None]);
    assert!(table(Arc::new(lists), None, TableValue::Lists).is_none());
    let texts = StringArray::from_iter([Some("a"), None]);
    assert!(table(Arc::new(texts), None, TableValue::Bytes).is_none());
}
