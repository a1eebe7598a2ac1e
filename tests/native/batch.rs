//! Typed views of a batch.

use std::sync::Arc;

use sluicegate::internal::{Array, Ragged, Segment};
use sluicegate::{Batch, Collate, DType, DataLoader, DatasetExt, Error, Field, InMemory, PadSamples, StackSamples};

/// Four samples: a point of two numbers, a flag, and the words "ab", "", "c" and "def" of two bytes a letter.
fn batch(collate: impl Collate + 'static) -> Batch {
    let letters: Vec<u16> = b"abcdef".iter().map(|&letter| u16::from(letter)).collect();
    let letters = Array::contiguous(Arc::new(Segment::from_vec(letters)), 0, 2, &[6]).unwrap();
    let words = Ragged::new(Field::variable("word", DType::UInt16, []), letters, vec![0, 2, 2, 3, 6]).unwrap();
    let flags = Array::contiguous(Arc::new(Segment::from_vec(vec![1_u8, 0, 1, 1])), 0, 1, &[4]).unwrap();
    let flags = InMemory::new(vec![(Field::new("flag", DType::Bool, []), flags)]).unwrap();
    let points = InMemory::from_vec("point", (0..8).map(|value| value as f32).collect(), [2]).unwrap();
    let dataset = points.zip(flags).unwrap().zip(words).unwrap();
    let loader = DataLoader::builder(dataset).batch_size(4).collate(Arc::new(collate)).build().unwrap();
    loader.epoch(0).unwrap().next().unwrap().unwrap()
}

fn reason<T: std::fmt::Debug>(result: sluicegate::Result<T>) -> String {
    match result.unwrap_err() {
        error @ Error::InvalidArgument { .. } => error.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn fixed_size_fields_are_read_in_place() {
    let batch = batch(StackSamples);
    let point = batch.field("point").unwrap();
    assert_eq!(
        (point.name(), point.dtype(), point.shape(), point.samples()),
        ("point", DType::Float32, &[4, 2][..], 4)
    );
    let values = point.view::<f32>().unwrap();
    assert_eq!(values, batch.to_vec::<f32>(0).unwrap());
    assert_eq!((values.as_ptr().cast(), point.bytes()), (batch.bytes(0).as_ptr(), batch.bytes(0)));
    assert_eq!(point.sample::<f32>(2).unwrap(), [4.0, 5.0]);
    assert!(point.rows::<f32>().unwrap().eq([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]));
    assert_eq!((point.rows::<f32>().unwrap().len(), point.lengths()), (4, None));
    assert_eq!(batch.field_at(0).unwrap().name(), "point");
    // A view lives as long as the batch, not only as long as the object that returned it.
    let values = batch.field("point").unwrap().view::<f32>().unwrap();
    assert_eq!(values.len(), 8);
}

#[test]
fn variable_fields_are_read_by_sample() {
    let words: [&[u16]; 4] = [&[97, 98], &[], &[99], &[100, 101, 102]];
    for (batch, shape) in [(batch(StackSamples), vec![6]), (batch(PadSamples::new().field(2, [0, 0])), vec![4, 3])] {
        let word = batch.field("word").unwrap();
        assert_eq!((word.shape(), word.lengths()), (shape.as_slice(), Some(vec![2, 0, 1, 3])));
        assert!(word.rows::<u16>().unwrap().eq(words));
        assert_eq!((word.sample::<u16>(3).unwrap(), batch.sample(2, 3)), (words[3], batch.sample(2, 3)));
        assert_eq!(word.view::<u16>().unwrap(), batch.to_vec::<u16>(2).unwrap());
    }
}

#[test]
fn missing_fields_are_reported_with_the_existing_ones() {
    let batch = batch(StackSamples);
    let message = reason(batch.field("points"));
    assert!(message.contains("`points`") && message.contains("`point`, `flag`, `word`"), "{message}");
    let message = reason(batch.field_at(3));
    assert!(message.contains("no field 3") && message.contains("`word`"), "{message}");
    let message = reason(batch.field("point").unwrap().view::<i64>());
    assert!(message.contains("`point` holds float32, not int64"), "{message}");
    let message = reason(batch.field("flag").unwrap().view::<u8>());
    assert!(message.contains("holds bool"), "{message}");
    assert!(batch.field("word").unwrap().rows::<i16>().is_err());
    let message = reason(batch.field("word").unwrap().sample::<u16>(4));
    assert!(message.contains("row 4") && message.contains("4 samples"), "{message}");
}
