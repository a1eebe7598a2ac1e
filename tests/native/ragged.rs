//! Samples of variable size: through combinators, collates and fetches.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::{Array, Fetch, FetchSamples, IndexBatch, Ragged, Segment, Slab};
use sluicegate::{
    Batch, Collate, Concat, DType, Dataset, Error, Field, InMemory, PadSamples, Result, SampleWriter, Schema,
    SizesWriter, Stack, StackSamples, Subset, VariableSize,
};

use crate::conformance::dataset_conformance;

type Samples = Vec<Vec<Vec<u8>>>;

fn ragged(samples: &[&[u16]]) -> Arc<dyn Dataset> {
    let values: Vec<u16> = samples.concat();
    let offsets = samples.iter().scan(0, |end, sample| {
        *end += sample.len();
        Some(*end)
    });
    let offsets = [0].into_iter().chain(offsets).collect();
    let shape = [values.len()];
    let array = Array::contiguous(Arc::new(Segment::from_vec(values)), 0, 2, &shape).unwrap();
    Arc::new(Ragged::new(Field::variable("word", DType::UInt16, []), array, offsets).unwrap())
}

fn bytes(samples: &[&[u16]]) -> Samples {
    samples.iter().map(|sample| vec![sample.iter().flat_map(|value| value.to_ne_bytes()).collect()]).collect()
}

const WORDS: [&[u16]; 5] = [&[1, 2, 3], &[], &[4], &[5, 6], &[]];

#[test]
fn ragged_arrays_and_combinators_keep_the_contract() {
    dataset_conformance(&*ragged(&WORDS), &bytes(&WORDS));
    dataset_conformance(&*ragged(&[]), &[]);
    let subset = Subset::new(ragged(&WORDS), vec![3, 0, 3, 1]).unwrap();
    dataset_conformance(&subset, &bytes(&[WORDS[3], WORDS[0], WORDS[3], WORDS[1]]));
    let concat = Concat::new(vec![ragged(&WORDS), ragged(&[]), ragged(&WORDS[2..4])]).unwrap();
    dataset_conformance(&concat, &bytes(&[&WORDS, &WORDS[2..4]].concat()));
    let numbers = Arc::new(InMemory::from_vec("number", (0..5_u8).collect(), []).unwrap());
    let parts: Vec<(String, Arc<dyn Dataset>)> =
        vec![("a".into(), ragged(&WORDS)), ("n".into(), numbers), ("b".into(), ragged(&WORDS))];
    let stack = Stack::new(parts).unwrap();
    assert_eq!(stack.schema().to_string(), "(a.word: uint16[*], n.number: uint8[], b.word: uint16[*])");
    let words = bytes(&WORDS);
    let expected: Samples =
        (0..5).map(|row| vec![words[row][0].clone(), vec![row as u8], words[row][0].clone()]).collect();
    dataset_conformance(&stack, &expected);
}

fn fetch(dataset: Arc<dyn Dataset>, collate: impl Collate + 'static, indices: &[usize]) -> Result<Batch> {
    let fetch = FetchSamples::new(dataset, Arc::new(collate), Arc::new(Slab::new(1)));
    // Bytes of an older batch must not remain visible.
    for _ in 0..2 {
        fetch.fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices: indices.to_vec(), draws: None })?;
    }
    fetch.fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices: indices.to_vec(), draws: None })
}

#[test]
fn a_batch_has_values_and_lengths() {
    let batch = fetch(ragged(&WORDS), StackSamples, &[3, 1, 0, 3]).unwrap();
    assert_eq!(batch.to_vec::<u16>(0).unwrap(), [5, 6, 1, 2, 3, 5, 6]);
    assert_eq!((batch.lengths(0), batch.fields()[0].shape.as_slice()), (Some(vec![2, 0, 3, 2]), &[7][..]));
    assert_eq!(batch.sample(0, 2), [1_u16, 2, 3].map(u16::to_ne_bytes).concat());
    let batch = fetch(ragged(&WORDS), PadSamples::new().field(0, 7_u16.to_ne_bytes()), &[3, 1, 2]).unwrap();
    assert_eq!(batch.to_vec::<u16>(0).unwrap(), [5, 6, 7, 7, 4, 7]);
    assert_eq!((batch.lengths(0), batch.fields()[0].shape.as_slice()), (Some(vec![2, 0, 1]), &[3, 2][..]));
    assert_eq!(fetch(ragged(&WORDS), StackSamples, &[]).unwrap().lengths(0), Some(vec![]));
}

proptest! {
    #[test]
    fn samples_of_any_size_round_trip(
        samples in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..9), 1..20),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        fill in any::<u16>(),
    ) {
        let samples: Vec<&[u16]> = samples.iter().map(Vec::as_slice).collect();
        let indices: Vec<usize> = picks.iter().map(|pick| pick.index(samples.len())).collect();
        let stacked = fetch(ragged(&samples), StackSamples, &indices).unwrap();
        let expected: Vec<u16> = indices.iter().flat_map(|&index| samples[index]).copied().collect();
        prop_assert_eq!(stacked.to_vec::<u16>(0).unwrap(), expected);
        let padded = fetch(ragged(&samples), PadSamples::new().field(0, fill.to_ne_bytes()), &indices).unwrap();
        let longest = indices.iter().map(|&index| samples[index].len()).max().unwrap_or(0);
        let rows = indices.iter().flat_map(|&index| {
            samples[index].iter().copied().chain(std::iter::repeat(fill)).take(longest)
        });
        prop_assert_eq!(padded.to_vec::<u16>(0).unwrap(), rows.collect::<Vec<_>>());
    }
}

/// A dataset with the values of a damaged index.
struct Absurd(Schema, usize);

impl Dataset for Absurd {
    fn len(&self) -> usize {
        10
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn read(&self, _: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        into.field(0).fill(1);
        Ok(())
    }

    fn as_variable(&self) -> Option<&dyn VariableSize> {
        Some(self)
    }
}

impl VariableSize for Absurd {
    fn sizes(&self, indices: &[usize], into: &mut SizesWriter<'_>) -> Result<()> {
        indices.iter().enumerate().for_each(|(row, &index)| into.set(row, 0, if index == 3 { self.1 } else { 10 }));
        Ok(())
    }
}

#[test]
fn an_oversized_sample_is_named_with_its_field() {
    let absurd = |elements| Arc::new(Absurd(Schema::new([Field::variable("jpg", DType::Int32, [])]), elements));
    for elements in [usize::MAX, usize::MAX / 2, 1 << 40, (16 << 30) / 4 + 1] {
        let error = fetch(absurd(elements), StackSamples, &[1, 3, 2]).unwrap_err();
        assert!(matches!(&error, Error::Sample { index: 3, field, .. } if field == "jpg"), "{error}");
        assert!(error.to_string().contains("lower batch_size"), "{error}");
    }
    let small = |largest| {
        FetchSamples::new(absurd(10), Arc::new(StackSamples), Arc::new(Slab::new(1)))
            .with_largest_batch(largest)
            .fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![1, 2], draws: None })
    };
    assert!(small(80).is_ok() && small(79).is_err());
    // Four samples of 40 bytes, or, if padded, of the fourth sample's 400.
    let padded = |elements, largest| {
        let collate = PadSamples::new().field(0, vec![0; 4]);
        FetchSamples::new(absurd(elements), Arc::new(collate), Arc::new(Slab::new(1)))
            .with_largest_batch(largest)
            .fetch(&IndexBatch { epoch: 0, batch_in_epoch: 0, indices: vec![1, 2, 0, 3], draws: None })
    };
    assert!(padded(10, 160).is_ok() && padded(100, 1600).is_ok());
    let error = padded(100, 1599).unwrap_err();
    assert!(matches!(&error, Error::Sample { index: 3, field, .. } if field == "jpg"), "{error}");
    assert!(error.to_string().contains("unpadded"), "{error}");
}

#[test]
fn a_variable_dataset_without_sizes_is_an_error() {
    struct Silent(Schema);
    impl Dataset for Silent {
        fn len(&self) -> usize {
            1
        }
        fn schema(&self) -> &Schema {
            &self.0
        }
        fn read(&self, _: usize, _: &mut SampleWriter<'_>) -> Result<()> {
            unreachable!("its sizes are not known")
        }
    }
    let silent = Arc::new(Silent(Schema::new([Field::variable("x", DType::UInt8, [])])));
    for dataset in
        [Subset::new(silent.clone(), vec![0]).map(|subset| Arc::new(subset) as Arc<dyn Dataset>).unwrap(), silent]
    {
        let error = fetch(dataset, StackSamples, &[0]).unwrap_err();
        assert!(error.to_string().contains("must implement as_variable"), "{error}");
    }
}

#[test]
fn invalid_offsets_are_refused() {
    let field = || Field::variable("x", DType::UInt8, []);
    let array = || Array::contiguous(Arc::new(Segment::from_vec(vec![0_u8; 4])), 0, 1, &[4]).unwrap();
    for offsets in [vec![], vec![0, 5], vec![2, 1], vec![usize::MAX]] {
        assert!(Ragged::new(field(), array(), offsets).is_err());
    }
    assert!(Ragged::new(Field::new("x", DType::UInt8, []), array(), vec![0]).is_err());
    assert!(Ragged::new(Field::variable("x", DType::UInt16, []), array(), vec![0]).is_err());
    assert_eq!(Ragged::new(field(), array(), vec![1, 4]).unwrap().len(), 1);
}
