//! Adaptors of item datasets: each returns what its name says through every kind of read, and forwards batched reads
//! and keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use sluicegate::{
    ConcatItems, DataLoader, Dataset, DatasetExt, Error, InMemory, ItemDataset, ItemDatasetExt, MixtureSampler,
    MixtureWeights, Result, Sampler, StopCriteria, SubsetItems, sample_key,
};

/// Numbers, and a record of how they were read.
#[derive(Default)]
struct Counted {
    len: usize,
    one_by_one: AtomicUsize,
    batched: AtomicUsize,
}

impl Counted {
    fn new(len: usize) -> Self {
        Self { len, ..Self::default() }
    }

    fn reads(&self) -> (usize, usize) {
        (self.one_by_one.load(Ordering::Relaxed), self.batched.load(Ordering::Relaxed))
    }
}

impl ItemDataset for Counted {
    type Item = usize;

    fn len(&self) -> usize {
        self.len
    }

    fn item(&self, index: usize) -> Result<usize> {
        self.one_by_one.fetch_add(1, Ordering::Relaxed);
        if index < self.len { Ok(index) } else { Err(Error::IndexOutOfRange { index, len: self.len }) }
    }

    fn items(&self, indices: &[usize]) -> Result<Vec<usize>> {
        self.batched.fetch_add(1, Ordering::Relaxed);
        match indices.iter().find(|&&index| index >= self.len) {
            Some(&index) => Err(Error::IndexOutOfRange { index, len: self.len }),
            None => Ok(indices.to_vec()),
        }
    }
}

fn numbers(len: usize) -> Vec<usize> {
    (0..len).collect()
}

/// Asserts that a dataset returns `expected` through every kind of read.
fn check<D: ItemDataset>(dataset: &D, expected: &[D::Item])
where
    D::Item: PartialEq + std::fmt::Debug,
{
    let len = expected.len();
    assert_eq!((dataset.len(), dataset.is_empty()), (len, len == 0));
    let backwards: Vec<usize> = (0..len).rev().collect();
    let one_by_one: Vec<_> = backwards.iter().map(|&index| dataset.item(index).unwrap()).collect();
    assert_eq!(dataset.items(&backwards).unwrap(), one_by_one);
    assert_eq!(dataset.items_with_keys(&backwards, &vec![7; len]).unwrap(), one_by_one);
    assert!(one_by_one.iter().rev().eq(expected), "{one_by_one:?} backwards, not {expected:?}");
    for beyond in [len, usize::MAX] {
        let refused = |error: Error| matches!(error, Error::IndexOutOfRange { index, .. } if index == beyond);
        assert!(refused(dataset.item(beyond).unwrap_err()), "{beyond}");
        assert!(refused(dataset.items(&[beyond]).unwrap_err()), "{beyond}");
    }
}

#[test]
fn item_adaptors_match_iterators() {
    for len in [0, 1, 7, 300] {
        let all = numbers(len);
        check(&all, &all);
        check(&all.as_slice(), &all.iter().collect::<Vec<_>>());
        let boxed: Box<dyn ItemDataset<Item = usize>> = Box::new(all.clone());
        check(&boxed, &all);
        check(&Arc::new(&all), &all);
        let every_third = all.iter().copied().filter(|number| number % 3 == 1).collect::<Vec<_>>();
        check(&(&all).filter(|number| Ok(number % 3 == 1)).unwrap(), &every_third);
        check(&(&all).filter_indices(|index| index % 3 == 1), &every_third);
        for items in [0, 1, 5, 1000, usize::MAX] {
            check(&(&all).take(items), &all.iter().copied().take(items).collect::<Vec<_>>());
            check(&(&all).skip(items), &all.iter().copied().skip(items).collect::<Vec<_>>());
        }
        for size in [1, 2, 5] {
            let full: Vec<_> = all.chunks_exact(size).map(<[_]>::to_vec).collect();
            check(&(&all).batch(size).unwrap(), &full);
            for stride in [1, 3, 7] {
                let windows: Vec<_> = all.windows(size).step_by(stride).map(<[_]>::to_vec).collect();
                check(&(&all).window(size, stride).unwrap(), &windows);
            }
        }
        let parts = ConcatItems::new(vec![(&all).take(2), (&all).take(0), (&all).skip(2)]).unwrap();
        check(&parts, &all);
    }
    check(&ConcatItems::<Vec<usize>>::new(vec![]).unwrap(), &[]);
    let refused = SubsetItems::new(numbers(3), vec![2, 3]).err().unwrap();
    assert!(matches!(refused, Error::IndexOutOfRange { index: 3, len: 3 }), "{refused}");
}

#[test]
fn vectors_and_slices_keep_their_own_methods() {
    let letters = vec!['a', 'b'];
    assert_eq!((letters.get(1), letters.len(), letters.first()), (Some(&'b'), 2, Some(&'a')));
    assert_eq!((letters.as_slice().get(2), letters.as_slice().is_empty()), (None, false));
}

#[test]
fn windows_longer_than_the_dataset_are_empty() {
    let windows = numbers(10).window(1 << 62, 1).unwrap();
    assert_eq!(windows.len(), 0);
    assert!(matches!(windows.items(&[0]), Err(Error::IndexOutOfRange { index: 0, len: 0 })));
}

#[test]
fn a_map_and_a_zip_give_what_their_parts_give() {
    // Out of range, a map has the error of its dataset.
    let doubled = Counted::new(9).map(|number| Ok(2 * number));
    check(&doubled, &[0, 2, 4, 6, 8, 10, 12, 14, 16]);
    check(&Counted::new(3).zip(vec!['a', 'b', 'c']).unwrap(), &[(0, 'a'), (1, 'b'), (2, 'c')]);
    let error = numbers(3).zip(numbers(4)).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { first_len: 3, other_len: 4, .. }), "{error}");
    for (error, expected) in [
        (numbers(3).window(0, 1).unwrap_err(), "len"),
        (numbers(3).window(1, 0).unwrap_err(), "stride"),
        (numbers(3).batch(0).unwrap_err(), "size"),
    ] {
        assert!(matches!(error, Error::InvalidArgument { argument, .. } if argument == expected), "{error}");
    }
    let error = numbers(3).filter(|_| Err(Error::User("no".into()))).err().unwrap();
    assert!(matches!(error, Error::User(_)), "{error}");
}

#[test]
fn a_shuffle_is_a_bijection_that_its_seed_decides() {
    let shuffled = |seed| numbers(300).shuffle(seed).items(&numbers(300)).unwrap();
    assert_eq!(shuffled(7), shuffled(7));
    assert_ne!(shuffled(7), shuffled(8));
    assert_eq!(shuffled(7).into_iter().collect::<BTreeSet<_>>().len(), 300);
    check(&numbers(300).shuffle(7), &shuffled(7));
}

fn of_fields(dataset: impl Dataset + 'static) -> Vec<u64> {
    let loader = DataLoader::builder(dataset).build().unwrap();
    loader.epoch(0).unwrap().flat_map(|sample| sample.unwrap().to_vec::<u64>(0).unwrap()).collect()
}

fn of_items(dataset: impl ItemDataset<Item = u64>) -> Vec<u64> {
    dataset.items(&numbers(dataset.len())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn fields_and_items_are_adapted_the_same(len in 0_usize..40, one in 0_usize..9, other in 1_usize..9, seed in any::<u64>()) {
        let values = |len: usize| (0..len as u64).collect::<Vec<_>>();
        let fields = |len| InMemory::from_vec("x", values(len), []).unwrap();
        prop_assert_eq!(of_fields(fields(len).take(one)), of_items(values(len).take(one)));
        prop_assert_eq!(of_fields(fields(len).skip(one)), of_items(values(len).skip(one)));
        prop_assert_eq!(of_fields(fields(len).shuffle(seed)), of_items(values(len).shuffle(seed)));
        let is_kept = |index: usize| index.is_multiple_of(other);
        prop_assert_eq!(of_fields(fields(len).filter_indices(is_kept)), of_items(values(len).filter_indices(is_kept)));
        let flat = |windows: Vec<Vec<u64>>| windows.concat();
        let windows = values(len).window(other, one + 1).unwrap();
        prop_assert_eq!(of_fields(fields(len).window(other, one + 1).unwrap()), flat(windows.items(&numbers(windows.len())).unwrap()));
        let batches = values(len).batch(other).unwrap();
        prop_assert_eq!(of_fields(fields(len).batch(other).unwrap()), flat(batches.items(&numbers(batches.len())).unwrap()));
        let (weights, stop) = (MixtureWeights::constant([3.0, 1.0]), StopCriteria::CycleForever(50));
        let mixed_fields = fields(len + 1).mix(vec![Arc::new(fields(other))], &weights, stop, seed).unwrap();
        let mixed_items = values(len + 1).mix(vec![Arc::new(values(other))], &weights, stop, seed).unwrap();
        check(&mixed_items, &of_fields(mixed_fields));
    }
}

#[test]
fn adaptors_forward_batched_reads() {
    fn reads<D: ItemDataset>(of: impl FnOnce(&'static Counted) -> D, batches: usize) {
        let counted: &Counted = Box::leak(Box::new(Counted::new(100)));
        let adapted = of(counted);
        let before = counted.reads();
        adapted.items(&[3, 1, 2]).map(drop).unwrap();
        assert_eq!(counted.reads(), (before.0, before.1 + batches), "{}", std::any::type_name::<D>());
    }
    let (weights, stop) = (MixtureWeights::constant([1.0, 1.0]), StopCriteria::CycleForever(1000));
    let in_both = MixtureSampler::new(&[100, 100], &weights, stop, 4).unwrap().order(0).unwrap();
    let parts: BTreeSet<usize> = (1..4).map(|position| in_both.index_at(position) / 100).collect();
    reads(|counted| counted.map(Ok), 1);
    reads(|counted| counted.filter(|_| Ok(true)).unwrap(), 1);
    reads(|counted| counted.take(50), 1);
    reads(|counted| counted.skip(50), 1);
    reads(|counted| counted.shuffle(7), 1);
    reads(|counted| counted.window(4, 2).unwrap(), 1);
    reads(|counted| counted.zip(counted).unwrap(), 2);
    reads(|counted| counted.mix(vec![Arc::new(counted)], &weights, stop, 4).unwrap(), parts.len());
    reads(|counted| counted.batch(4).unwrap(), 1);
    reads(Box::new, 1);
    reads(Arc::new, 1);
    reads(|counted| Box::new(counted) as Box<dyn ItemDataset<Item = usize>>, 1);
}

/// The numbers paired with the keys that they were read with.
fn keyed(len: usize) -> impl ItemDataset<Item = (usize, u64)> + Clone {
    numbers(len).map_random(|number, key| Ok((number, key)))
}

#[test]
fn adaptors_forward_keys() {
    fn check<D: ItemDataset<Item = (usize, u64)>>(adapted: D) {
        let name = std::any::type_name::<D>();
        assert!(adapted.is_random(), "{name}");
        let items = adapted.items_with_keys(&[3, 1, 2], &[30, 10, 20]).unwrap();
        assert_eq!(items.iter().map(|item| item.1).collect::<Vec<_>>(), [30, 10, 20], "{name}");
        let refused = |error| matches!(error, Error::InvalidArgument { argument: "keys", .. });
        assert!(refused(adapted.items(&[0]).map(drop).unwrap_err()), "{name}");
        assert!(refused(adapted.item(0).map(drop).unwrap_err()), "{name}");
    }
    check(keyed(9));
    check(keyed(9).map(Ok));
    check(keyed(9).filter_indices(|_| true));
    check(keyed(9).take(5));
    check(keyed(9).skip(5));
    check(keyed(9).shuffle(7));
    check(
        keyed(9)
            .zip(keyed(9))
            .unwrap()
            .map(|(first, second)| if first == second { Ok(first) } else { panic!("two keys") }),
    );
    let (weights, stop) = (MixtureWeights::constant([1.0, 1.0]), StopCriteria::CycleForever(20));
    check(keyed(9).mix(vec![Arc::new(keyed(4))], &weights, stop, 7).unwrap());
    check(Arc::new(keyed(9)));
    check(Box::new(keyed(9)) as Box<dyn ItemDataset<Item = (usize, u64)>>);
    let dataset = keyed(9);
    check(&dataset as &dyn ItemDataset<Item = (usize, u64)>);
    let windows = keyed(9).window(3, 1).unwrap().items_with_keys(&[2, 4], &[20, 40]).unwrap();
    let expected =
        |first: usize, key| (0..3).map(|place| (first + place, sample_key(key, 0, place as u64))).collect::<Vec<_>>();
    assert_eq!(windows, [expected(2, 20), expected(4, 40)]);
    let refused = keyed(9).filter(|_| Ok(true)).err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "dataset", .. }), "{refused}");
    assert!(!numbers(9).map(Ok).shuffle(7).is_random());
}

#[test]
fn a_part_that_gives_another_number_of_items_is_refused() {
    struct Odd;
    impl ItemDataset for Odd {
        type Item = usize;
        fn len(&self) -> usize {
            10
        }
        fn item(&self, index: usize) -> Result<usize> {
            Ok(index)
        }
        fn items(&self, indices: &[usize]) -> Result<Vec<usize>> {
            Ok(indices[1..].to_vec())
        }
    }
    let refused = |error: Error| assert!(error.to_string().contains("items for "), "{error}");
    refused(Odd.window(2, 1).unwrap().items(&[1]).unwrap_err());
    refused(Odd.zip(numbers(10)).unwrap().items(&[1]).unwrap_err());
    refused(ConcatItems::new(vec![Odd]).unwrap().items(&[1]).unwrap_err());
    refused(Odd.filter(|_| Ok(true)).err().unwrap());
}
