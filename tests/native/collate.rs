//! Collates: where the samples of a batch are placed.

use std::sync::Arc;

use sluicegate::internal::{Array, Fetch, FetchSamples, IndexBatch, Ragged, Segment, Slab};
use sluicegate::{Collate, Column, DType, Error, Field, PadSamples, Padding, Schema, Sizes, StackSamples};

use crate::conformance::collate_conformance;

#[test]
fn every_collate_satisfies_the_contract() {
    collate_conformance(&StackSamples);
    collate_conformance(&PadSamples::new().field(0, [0; 4]).field(1, [7; 4]).field(2, [9]));
}

#[test]
fn a_fill_that_is_not_one_value_is_refused() {
    let schema = Schema::new([Field::variable("token", DType::UInt16, [])]);
    let refused = PadSamples::new().field(0, [0; 8]).layout(&schema, &Sizes::new(&schema, 2)).unwrap_err();
    assert_eq!(refused.to_string(), "padding: the fill of field `token` has 8 bytes, but a value has 2");
}

#[test]
fn stacking_adds_an_axis_in_front_and_starts_every_field_as_torch_does() {
    let schema = Schema::new([Field::new("flag", DType::Bool, []), Field::new("image", DType::UInt8, [3, 2])]);
    let layout = StackSamples.layout(&schema, &Sizes::fixed(65)).unwrap();
    assert_eq!(layout.fields[0].shape, [65]);
    assert_eq!(layout.fields[1].shape, [65, 3, 2]);
    assert_eq!((layout.columns[0].offset(), layout.columns[1].offset()), (0, 128));
    assert_eq!(layout.bytes, (128 + 65 * 6_usize).next_multiple_of(64));
}

#[test]
fn an_unaddressable_batch_is_refused() {
    let fields = [
        Field::new("x", DType::Float32, [1 << 40, 1 << 40]),
        Field::new("x", DType::UInt8, [usize::MAX - 10]),
        Field::new("x", DType::Float64, [1 << 60]),
    ];
    for field in fields {
        let refused = StackSamples.layout(&Schema::new([field]), &Sizes::fixed(16));
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "batch_size", .. })), "{refused:?}");
    }
    let empty = Schema::new([Field::new("x", DType::Float32, [1 << 40, 1 << 40, 0])]);
    assert_eq!(StackSamples.layout(&empty, &Sizes::fixed(16)).unwrap().bytes, 0);
}

#[test]
fn missing_or_overflowing_sizes_are_refused() {
    let schema = Schema::new([Field::variable("x", DType::Int64, [])]);
    let refused = |sizes: &Sizes| {
        [StackSamples.layout(&schema, sizes), PadSamples::new().field(0, [0; 8]).layout(&schema, sizes)]
            .map(|layout| layout.unwrap_err().to_string())
    };
    refused(&Sizes::fixed(3))
        .iter()
        .for_each(|text| assert!(text.contains("the sizes of its samples are missing"), "{text}"));
    for elements in [usize::MAX, usize::MAX / 8, 1 << 62, 1 << 60] {
        let mut sizes = Sizes::new(&schema, 3);
        (0..3).for_each(|row| sizes.writer().set(row, 0, elements));
        refused(&sizes).iter().for_each(|text| {
            assert!(
                text.contains("more bytes than can be addressed") || text.contains("more elements than can be counted"),
                "{text}"
            )
        });
    }
}

#[test]
fn padding_extends_samples_to_the_longest() {
    let schema = Schema::new([Field::variable("x", DType::Int16, [3]), Field::variable("y", DType::Int16, [])]);
    let mut sizes = Sizes::new(&schema, 3);
    sizes.writer().set(1, 0, 4);
    sizes.writer().set(2, 1, 2);
    let layout = PadSamples::new().field(0, [1, 0]).layout(&schema, &sizes).unwrap();
    assert_eq!((&layout.fields[0].shape, &layout.fields[1].shape), (&vec![3, 4, 3], &vec![2]));
    assert!(matches!(layout.columns[0], Column::Padded { bytes_per_sample: 24, bytes_per_element: 6, .. }));
    assert!(matches!(layout.columns[1], Column::Variable { bytes_per_element: 2, .. }));
}

#[test]
fn padding_has_a_side_a_multiple_and_a_length() {
    let words: [&[i16]; 3] = [&[1, 2, 3], &[], &[4]];
    let array = Array::contiguous(Arc::new(Segment::from_vec(vec![1_i16, 2, 3, 4])), 0, 2, &[4]).unwrap();
    let dataset = Arc::new(Ragged::new(Field::variable("x", DType::Int16, []), array, vec![0, 3, 3, 4]).unwrap());
    let fetched = |padding: Padding| {
        let collate = Arc::new(PadSamples::new().with(0, padding));
        let fetch = FetchSamples::new(dataset.clone(), collate, Arc::new(Slab::new(1)));
        fetch.fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![0, 1, 2], draws: None })
    };
    let nines = || Padding::new(9_i16.to_ne_bytes());
    for (padding, room, is_left) in [
        (nines(), 3, false),
        (nines().on_left(), 3, true),
        (nines().to_multiple_of(4), 4, false),
        (nines().to_multiple_of(2).on_left(), 4, true),
        (nines().to_length(5).on_left(), 5, true),
        (nines().to_length(2).to_multiple_of(4), 4, false),
    ] {
        let batch = fetched(padding).unwrap();
        let padded = |word: &&[i16]| {
            let rest = vec![9; room - word.len()];
            if is_left { [&rest, *word].concat() } else { [*word, &rest].concat() }
        };
        assert_eq!(batch.to_vec::<i16>(0).unwrap(), words.iter().flat_map(padded).collect::<Vec<_>>());
        assert_eq!(batch.lengths(0), Some(vec![3, 0, 1]));
        assert!(batch.field_at(0).unwrap().rows::<i16>().unwrap().eq(words));
    }
    let refused = fetched(nines().to_length(2)).unwrap_err().to_string();
    assert!(refused.contains("3 elements, more than 2"), "{refused}");
    let refused = fetched(nines().to_length(usize::MAX).to_multiple_of(2)).unwrap_err().to_string();
    assert!(refused.contains("rounded up to a multiple"), "{refused}");
}
