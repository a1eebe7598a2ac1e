//! Datasets: one conformance check for each, and the additional guarantees of each combinator.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use sluicegate::internal::{Array, Segment};
use sluicegate::{Concat, DType, Dataset, Error, Field, InMemory, Result, SampleWriter, Schema, Stack, Subset};

use crate::conformance::dataset_conformance;
use crate::datasets::Numbers;

type Samples = Vec<Vec<Vec<u8>>>;

fn numbers(values: impl IntoIterator<Item = u64>) -> Samples {
    values.into_iter().map(|value| vec![value.to_ne_bytes().to_vec()]).collect()
}

fn in_memory(values: impl IntoIterator<Item = u64>) -> Arc<dyn Dataset> {
    Arc::new(InMemory::from_vec("number", values.into_iter().collect::<Vec<u64>>(), []).unwrap())
}

/// Returns a dataset of one field over bytes 0, 1, 2, … seen through `strides`, and the bytes of its samples.
fn strided(shape: &[usize], strides: &[usize]) -> (InMemory, Samples) {
    let segment = Arc::new(Segment::from_vec((0..=255).collect::<Vec<u8>>()));
    let array = Array::new(segment, 1, 1, shape, strides).unwrap();
    let dataset = InMemory::new(vec![(Field::new("x", DType::UInt8, &shape[1..]), array)]).unwrap();
    let mut places = vec![vec![]; shape[0]];
    for (index, places) in places.iter_mut().enumerate() {
        *places = vec![1 + index * strides[0]];
        for (&size, &stride) in shape[1..].iter().zip(&strides[1..]) {
            *places = places.iter().flat_map(|place| (0..size).map(move |step| place + step * stride)).collect();
        }
    }
    (dataset, places.into_iter().map(|places| vec![places.into_iter().map(|place| place as u8).collect()]).collect())
}

#[test]
fn arrays_in_memory_keep_the_contract() {
    dataset_conformance(&*in_memory([5, 6, 7]), &numbers([5, 6, 7]));
    dataset_conformance(&*in_memory([]), &[]);
    let shapes: [(&[usize], &[usize]); 9] = [
        (&[10, 4], &[4, 1]),
        (&[10, 4], &[8, 2]),
        (&[10, 4], &[1, 10]),
        (&[6, 2, 3, 4], &[24, 1, 8, 2]),
        (&[7, 3, 2], &[0, 2, 1]),
        (&[7, 3, 2], &[2, 0, 0]),
        (&[5, 1, 3], &[9, 77, 3]),
        (&[4, 0, 3], &[3, 3, 1]),
        (&[0, 3], &[3, 1]),
    ];
    for (shape, strides) in shapes {
        let (dataset, samples) = strided(shape, strides);
        dataset_conformance(&dataset, &samples);
    }
}

#[test]
fn a_dataset_without_batched_reads_keeps_the_contract() {
    dataset_conformance(&Numbers::starting_at(3, 4), &numbers(3..7));
    assert!(Numbers::new(1).as_read_many().is_none());
}

#[test]
fn a_subset_keeps_the_contract() {
    let subset = |indices: &[usize]| Subset::new(in_memory(0..10), indices.to_vec()).unwrap();
    dataset_conformance(&subset(&[9, 0, 3, 3, 3]), &numbers([9, 0, 3, 3, 3]));
    dataset_conformance(&subset(&[]), &[]);
    dataset_conformance(&Subset::new(Arc::new(subset(&[4, 2])), vec![1, 0, 1]).unwrap(), &numbers([2, 4, 2]));
}

#[test]
fn a_concatenation_with_empty_parts_keeps_the_contract() {
    let empty = || in_memory([]);
    let parts = vec![empty(), in_memory(0..3), empty(), empty(), in_memory(3..4), in_memory(4..9), empty()];
    dataset_conformance(&Concat::new(parts).unwrap(), &numbers(0..9));
    dataset_conformance(&Concat::new(vec![empty(), empty()]).unwrap(), &[]);
}

#[test]
fn datasets_side_by_side_keep_the_contract() {
    let (pixels, samples) = strided(&[6, 2, 3], &[6, 1, 2]);
    let stack = Stack::new(vec![("image".into(), Arc::new(pixels)), ("label".into(), in_memory(10..16))]).unwrap();
    let expected: Samples =
        samples.into_iter().zip(numbers(10..16)).map(|(image, label)| [image, label].concat()).collect();
    assert_eq!(stack.schema().to_string(), "(image.x: uint8[2, 3], label.number: uint64[])");
    dataset_conformance(&stack, &expected);
    let both = Stack::new(vec![("a".into(), Arc::new(stack)), ("b".into(), in_memory(0..6))]).unwrap();
    let expected: Samples =
        expected.into_iter().zip(numbers(0..6)).map(|(first, second)| [first, second].concat()).collect();
    dataset_conformance(&both, &expected);
}

#[test]
fn combinators_read_many_where_all_their_parts_do() {
    let with = || in_memory(0..4);
    let without = || Arc::new(Numbers::new(4)) as Arc<dyn Dataset>;
    let batched = |dataset: &dyn Dataset| dataset.as_read_many().is_some();
    assert!(batched(&Subset::new(with(), vec![1]).unwrap()));
    assert!(!batched(&Subset::new(without(), vec![1]).unwrap()));
    assert!(batched(&Concat::new(vec![with(), with()]).unwrap()));
    assert!(!batched(&Concat::new(vec![with(), without()]).unwrap()));
    assert!(batched(&Stack::new(vec![("a".into(), with()), ("b".into(), with())]).unwrap()));
    assert!(!batched(&Stack::new(vec![("a".into(), without()), ("b".into(), with())]).unwrap()));
    dataset_conformance(&Concat::new(vec![with(), without()]).unwrap(), &numbers((0..4).chain(0..4)));
}

/// A dataset that reports the origin of its fields.
struct Told(InMemory);

impl Dataset for Told {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn read(&self, index: usize, into: &mut SampleWriter<'_>) -> Result<()> {
        self.0.read(index, into)
    }

    fn origin(&self, index: usize, field: usize) -> Option<String> {
        Some(format!("row {index}, field {field}"))
    }
}

#[test]
fn combinators_report_origins_of_their_parts() {
    let reported =
        |len: u64| Arc::new(Told(InMemory::from_vec("x", (0..len).collect(), []).unwrap())) as Arc<dyn Dataset>;
    let subset = Arc::new(Subset::new(reported(9), vec![7, 4, 5]).unwrap());
    let concat = Arc::new(Concat::new(vec![in_memory([1, 2]), subset]).unwrap());
    let stack =
        Stack::new(vec![("a".into(), reported(5)), ("b".into(), in_memory(0..5)), ("c".into(), concat)]).unwrap();
    assert_eq!(stack.origin(3, 0).as_deref(), Some("row 3, field 0"));
    assert_eq!(stack.origin(3, 1), None);
    assert_eq!(stack.origin(3, 2).as_deref(), Some("row 4, field 0"));
    assert_eq!((stack.origin(1, 2), stack.origin(5, 2), stack.origin(0, 3)), (None, None, None));
}

#[test]
fn mismatched_parts_are_refused_by_name() {
    let refused = Subset::new(in_memory(0..3), vec![2, 3]).err().unwrap();
    assert!(matches!(refused, Error::IndexOutOfRange { index: 3, len: 3 }), "{refused}");
    let floats = Arc::new(InMemory::from_vec("number", vec![1.0_f64], []).unwrap());
    let refused = Concat::new(vec![in_memory(0..1), floats]).err().unwrap();
    assert!(matches!(refused, Error::SchemaMismatch { part: 1, .. }), "{refused}");
    let message = refused.to_string();
    assert!(message.contains("float64[]") && message.contains("uint64[]"), "{message}");
    let refused = Stack::new(vec![("image".into(), in_memory(0..3)), ("label".into(), in_memory(0..4))]).err();
    let message = refused.unwrap().to_string();
    assert!(message.contains("image has 3") && message.contains("label has 4"), "{message}");
    let countless = Concat::new(vec![Arc::new(Numbers::new(usize::MAX)), Arc::new(Numbers::new(1))]).err();
    for refused in [countless, Concat::new(vec![]).err(), Stack::new(vec![]).err(), InMemory::new(vec![]).err()] {
        assert!(matches!(refused, Some(Error::InvalidArgument { .. })));
    }
}

#[test]
fn values_that_do_not_fill_samples_are_refused() {
    for shape in [vec![2], vec![0], vec![1 << 40, 1 << 40], vec![usize::MAX]] {
        let refused = InMemory::from_vec("x", vec![1_u8, 2, 3], shape).err().unwrap();
        assert!(matches!(refused, Error::InvalidArgument { argument: "values", .. }), "{refused}");
    }
}

#[test]
fn an_array_that_contradicts_its_field_is_refused() {
    let array = |shape: &[usize]| Array::contiguous(Arc::new(Segment::from_vec(vec![0_u8; 64])), 0, 1, shape).unwrap();
    let refused = InMemory::new(vec![(Field::new("image", DType::UInt8, [5]), array(&[4, 3]))]).err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "arrays", .. }), "{refused}");
    assert!(refused.to_string().contains("image"), "{refused}");
    let lengths = [("a", 4), ("b", 4), ("c", 5)];
    let arrays = lengths.map(|(name, len)| (Field::new(name, DType::UInt8, []), array(&[len]))).into();
    let message = InMemory::new(arrays).err().unwrap().to_string();
    assert!(message.contains("a has 4") && message.contains("c has 5"), "{message}");
}

/// Nested combinators, to be built as a dataset and as plain bytes.
#[derive(Debug, Clone)]
enum Plan {
    InMemory {
        first: u64,
        len: usize,
    },
    OneByOne {
        first: usize,
        len: usize,
    },
    Subset(Box<Plan>, Vec<Index>),
    /// The plan, followed by subsets of it: parts of one schema.
    Concat(Box<Plan>, Vec<Vec<Index>>),
    /// The plans, each cut to the shortest.
    Stack(Vec<Plan>),
}

fn plan() -> impl Strategy<Value = Plan> {
    let leaf = prop_oneof![
        3 => (0..1000_u64, 0_usize..6).prop_map(|(first, len)| Plan::InMemory { first, len }),
        1 => (0..1000_usize, 0_usize..6).prop_map(|(first, len)| Plan::OneByOne { first, len }),
    ];
    let picks = || prop::collection::vec(any::<Index>(), 0..6);
    leaf.prop_recursive(4, 12, 3, move |inner| {
        prop_oneof![
            (inner.clone(), picks()).prop_map(|(plan, picks)| Plan::Subset(Box::new(plan), picks)),
            (inner.clone(), prop::collection::vec(picks(), 0..3))
                .prop_map(|(plan, parts)| Plan::Concat(Box::new(plan), parts)),
            prop::collection::vec(inner, 1..4).prop_map(Plan::Stack),
        ]
    })
}

/// The dataset, its samples, and true if all of its parts can read many samples at once.
type Built = (Arc<dyn Dataset>, Samples, bool);

fn subset((dataset, samples, batched): &Built, indices: Vec<usize>) -> Built {
    let picked = indices.iter().map(|&index| samples[index].clone()).collect();
    (Arc::new(Subset::new(Arc::clone(dataset), indices).unwrap()), picked, *batched)
}

fn pick(built: &Built, picks: &[Index]) -> Built {
    let len = built.1.len();
    let indices = if len == 0 { Vec::new() } else { picks.iter().map(|pick| pick.index(len)).collect() };
    subset(built, indices)
}

fn build(plan: &Plan) -> Built {
    match plan {
        Plan::InMemory { first, len } => {
            let values = *first..first + *len as u64;
            (in_memory(values.clone()), numbers(values), true)
        }
        Plan::OneByOne { first, len } => {
            let values = *first as u64..(first + len) as u64;
            (Arc::new(Numbers::starting_at(*first, *len)), numbers(values), false)
        }
        Plan::Subset(plan, picks) => pick(&build(plan), picks),
        Plan::Concat(plan, parts) => {
            let first = build(plan);
            let others: Vec<Built> = parts.iter().map(|picks| pick(&first, picks)).collect();
            let all = std::iter::once(&first).chain(&others);
            let samples = all.clone().flat_map(|part| part.1.clone()).collect();
            let concat = Concat::new(all.map(|part| Arc::clone(&part.0)).collect()).unwrap();
            (Arc::new(concat), samples, first.2)
        }
        Plan::Stack(plans) => {
            let parts: Vec<Built> = plans.iter().map(build).collect();
            let len = parts.iter().map(|part| part.1.len()).min().unwrap();
            let parts: Vec<Built> = parts.iter().map(|part| subset(part, (0..len).collect())).collect();
            let samples = (0..len).map(|index| parts.iter().flat_map(|part| part.1[index].clone()).collect()).collect();
            let named = parts.iter().enumerate().map(|(part, built)| (part.to_string(), Arc::clone(&built.0)));
            let batched = parts.iter().all(|part| part.2);
            (Arc::new(Stack::new(named.collect()).unwrap()), samples, batched)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn nested_combinators_read_as_a_plain_model(plan in plan()) {
        let (dataset, samples, batched) = build(&plan);
        prop_assert_eq!(dataset.as_read_many().is_some(), batched);
        dataset_conformance(&*dataset, &samples);
    }
}
