//! Samples: data types, schemas, and the windows through which samples are written.

use proptest::prelude::*;
use sluicegate::{BatchWriter, Column, DType, Element, Error, Field, Schema, Sizes};

const NAMES: [(&str, usize); 21] = [
    ("bool", 1),
    ("uint8", 1),
    ("int8", 1),
    ("uint16", 2),
    ("int16", 2),
    ("uint32", 4),
    ("int32", 4),
    ("uint64", 8),
    ("int64", 8),
    ("float16", 2),
    ("bfloat16", 2),
    ("float32", 4),
    ("float64", 8),
    ("complex32", 4),
    ("complex64", 8),
    ("complex128", 16),
    ("float8_e4m3fn", 1),
    ("float8_e4m3fnuz", 1),
    ("float8_e5m2", 1),
    ("float8_e5m2fnuz", 1),
    ("float8_e8m0fnu", 1),
];

#[test]
fn data_types_have_the_names_and_sizes_of_torch() {
    for (name, bytes) in NAMES {
        let dtype: DType = name.parse().unwrap();
        assert_eq!((dtype.name(), dtype.to_string().as_str(), dtype.bytes()), (name, name, bytes));
    }
    for unknown in ["", "Float32", "torch.float32", "quint8", "float32 "] {
        let error = unknown.parse::<DType>().unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { argument: "dtype", .. }), "{error}");
        assert!(error.to_string().contains(&format!("`{unknown}`")), "{error}");
    }
}

#[test]
fn elements_read_back_what_was_written() {
    assert_eq!(<i64 as Element>::from_ne_bytes(&(-5_i64).to_ne_bytes()), -5);
    assert_eq!(<f32 as Element>::from_ne_bytes(&1.5_f32.to_ne_bytes()), 1.5);
    assert_eq!((u8::DTYPE, f64::DTYPE), (DType::UInt8, DType::Float64));
}

#[test]
fn schemas_stack_by_type_and_shape_whatever_the_names() {
    let schema = |name: &str, dtype, shape: &[usize]| Schema::new([Field::new(name, dtype, shape)]);
    let floats = schema("a", DType::Float32, &[2, 3]);
    assert!(floats.stacks_with(&schema("b", DType::Float32, &[2, 3])));
    assert!(!floats.stacks_with(&schema("a", DType::Float64, &[2, 3])));
    assert!(!floats.stacks_with(&schema("a", DType::Float32, &[3, 2])));
    assert!(!floats.stacks_with(&Schema::new([])));
}

#[test]
fn the_size_of_a_field_never_wraps() {
    assert_eq!(Field::new("x", DType::Float32, [1 << 40, 1 << 40]).bytes(), usize::MAX);
    assert_eq!(Field::new("x", DType::Float32, [1 << 40, 1 << 40, 0]).bytes(), 0);
    assert_eq!(Field::new("x", DType::Float32, []).bytes(), 4);
}

#[test]
#[should_panic(expected = "a column reaches past its slot")]
fn a_column_past_the_slot_is_refused() {
    let _ = BatchWriter::new(&mut [0; 7], &[Column::Fixed { offset: 0, bytes_per_sample: 4 }], 2);
}

#[test]
#[should_panic(expected = "row 2 of a batch of 2")]
fn a_writer_window_cannot_write_past_its_rows() {
    let (mut bytes, columns) = ([0; 8], [Column::Fixed { offset: 0, bytes_per_sample: 1 }]);
    let mut all = BatchWriter::new(&mut bytes, &columns, 8);
    let _ = all.rows_mut(3..5).sample(2);
}

#[test]
fn fields_of_variable_size_stack_only_with_each_other() {
    let words = Schema::new([Field::variable("a", DType::UInt8, [2])]);
    assert!(words.is_variable() && words.stacks_with(&Schema::new([Field::variable("b", DType::UInt8, [2])])));
    assert!(!words.stacks_with(&Schema::new([Field::new("a", DType::UInt8, [2])])));
    assert_eq!(words.to_string(), "(a: uint8[*, 2])");
    assert_eq!(words.fields()[0].renamed("c"), Field::variable("c", DType::UInt8, [2]));
}

#[test]
fn sizes_are_written_through_windows_of_rows_and_fields() {
    let (fixed, variable) = (Field::new("x", DType::Int8, []), |name| Field::variable(name, DType::Int8, []));
    let schema = Schema::new([variable("a"), fixed.clone(), variable("b"), fixed]);
    let mut sizes = Sizes::new(&schema, 4);
    let mut all = sizes.writer();
    let mut window = all.rows_mut(1..4);
    window.fields_mut(1..3).rows_mut(1..3).set(1, 1, 7);
    window.set(0, 0, 5);
    assert_eq!(window.rows(), 3);
    assert_eq!((sizes.elements(0), sizes.elements(2)), (Some(&[0, 5, 0, 0][..]), Some(&[0, 0, 0, 7][..])));
    assert_eq!((sizes.elements(1), sizes.elements(3), sizes.elements(9)), (None, None, None));
}

#[test]
#[should_panic(expected = "row 1 of a batch of 1")]
fn sizes_beyond_the_window_are_refused() {
    let schema = Schema::new([Field::variable("a", DType::Int8, [])]);
    let mut sizes = Sizes::new(&schema, 3);
    sizes.writer().rows_mut(0..1).set(1, 0, 1);
}

#[test]
fn a_sample_of_variable_size_has_exactly_its_own_bytes() {
    // Offsets 0, 1, 1, 3, and then three elements of two bytes.
    let mut bytes: Vec<u8> = [0_i64, 1, 1, 3].iter().flat_map(|offset| offset.to_ne_bytes()).collect();
    bytes.extend([0; 6]);
    let columns = [Column::Variable { offset: 32, bytes_per_element: 2, offsets: 0 }];
    let mut writer = BatchWriter::new(&mut bytes, &columns, 3);
    writer.sample(2).field(0).copy_from_slice(&[3, 4, 5, 6]);
    writer.rows_mut(0..1).sample(0).field(0).copy_from_slice(&[1, 2]);
    assert_eq!(writer.sample(1).field(0).len(), 0);
    assert_eq!(bytes[32..], [1, 2, 3, 4, 5, 6]);
}

proptest! {
    #[test]
    fn nested_windows_write_where_a_plain_index_says(
        rows in 1_usize..12, widths in prop::collection::vec(0_usize..5, 1..4),
        picks in prop::array::uniform6(any::<prop::sample::Index>()),
    ) {
        let mut bytes_per_slot = 0;
        let columns: Vec<Column> = widths
            .iter()
            .map(|&bytes_per_sample| {
                let column = Column::Fixed { offset: bytes_per_slot, bytes_per_sample };
                bytes_per_slot += bytes_per_sample * rows;
                column
            })
            .collect();
        let outer = picks[0].index(rows);
        let inner = picks[1].index(rows - outer);
        let row = picks[2].index(rows - outer - inner);
        let first_field = picks[3].index(widths.len());
        let field = picks[4].index(widths.len() - first_field);

        let mut written = vec![0; bytes_per_slot];
        let mut all = BatchWriter::new(&mut written, &columns, rows);
        let mut outer_window = all.rows_mut(outer..rows);
        let mut inner_window = outer_window.rows_mut(inner..rows - outer);
        prop_assert_eq!(inner_window.rows(), rows - outer - inner);
        inner_window.fields_mut(first_field..widths.len()).sample(row).field(field).fill(1);

        let mut expected = vec![0; bytes_per_slot];
        let bytes_per_sample = widths[first_field + field];
        let start = columns[first_field + field].offset() + (outer + inner + row) * bytes_per_sample;
        expected[start..start + bytes_per_sample].fill(1);
        prop_assert_eq!(written, expected);
    }
}
