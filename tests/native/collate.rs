//! Collates: where the samples of a batch lie.

use sluicegate::{Collate, DType, Error, Field, Schema, StackSamples};

use crate::conformance::collate_conformance;

#[test]
fn every_collate_keeps_the_contract() {
    collate_conformance(&StackSamples);
}

#[test]
fn stacking_adds_an_axis_in_front_and_starts_every_field_as_torch_does() {
    let schema = Schema::new([Field::new("flag", DType::Bool, []), Field::new("image", DType::UInt8, [3, 2])]);
    let layout = StackSamples.layout(&schema, 65).unwrap();
    assert_eq!(layout.fields[0].shape, [65]);
    assert_eq!(layout.fields[1].shape, [65, 3, 2]);
    assert_eq!((layout.columns[0].offset, layout.columns[1].offset), (0, 128));
    assert_eq!(layout.bytes, (128 + 65 * 6_usize).next_multiple_of(64));
}

#[test]
fn a_batch_larger_than_an_address_can_count_is_refused_with_the_argument() {
    let fields = [
        Field::new("x", DType::Float32, [1 << 40, 1 << 40]),
        Field::new("x", DType::UInt8, [usize::MAX - 10]),
        Field::new("x", DType::Float64, [1 << 60]),
    ];
    for field in fields {
        let refused = StackSamples.layout(&Schema::new([field]), 16);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "batch_size", .. })), "{refused:?}");
    }
    let empty = Schema::new([Field::new("x", DType::Float32, [1 << 40, 1 << 40, 0])]);
    assert_eq!(StackSamples.layout(&empty, 16).unwrap().bytes, 0);
}
