//! Samplers that use classes or lengths: every sample once, proportions, no repetition, and the same at every call.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{
    BalancedBatchSampler, BatchLimit, BatchingSampler, ClassIndex, ClassSampler, Error, LastBatch,
    LengthBucketBatchSampler, Result, Sampler, Shuffling, StratifiedBatchSampler, TorchGenerator,
};

use crate::conformance::{batching_sampler_conformance, sampler_conformance};

fn index(labels: &[i64]) -> Arc<ClassIndex> {
    Arc::new(ClassIndex::new(labels).expect("there is memory for it"))
}

/// Returns labels of classes of these sizes, in random order.
fn labels_of(counts: &[usize]) -> Vec<i64> {
    let sorted: Vec<i64> = counts.iter().zip(0..).flat_map(|(&count, label)| vec![3 * label - 5; count]).collect();
    let order = TorchGenerator::new(sorted.len() as u64).randperm(sorted.len()).expect("there is memory for it");
    order.into_iter().map(|place| sorted[place]).collect()
}

fn batches(sampler: &dyn BatchingSampler, epoch: u64) -> Vec<Vec<usize>> {
    let batches = sampler.batches(epoch).expect("the batches can be made");
    let mut into = Vec::new();
    (0..batches.len())
        .map(|batch| {
            batches.indices(batch, &mut into);
            into.clone()
        })
        .collect()
}

fn refused<T>(made: Result<T>) -> String {
    match made {
        Ok(_) => panic!("it was made"),
        Err(error) => {
            assert!(matches!(error, Error::InvalidArgument { .. }));
            error.to_string()
        }
    }
}

fn assert_index(labels: &[i64]) {
    let index = index(labels);
    let mut by_label: HashMap<i64, Vec<usize>> = HashMap::new();
    labels.iter().enumerate().for_each(|(sample, &label)| by_label.entry(label).or_default().push(sample));
    let mut classes: Vec<i64> = by_label.keys().copied().collect();
    classes.sort_unstable();
    assert_eq!((index.len(), index.classes()), (labels.len(), &classes[..]));
    for (class, label) in classes.iter().enumerate() {
        let samples: Vec<usize> = (0..index.count(class)).map(|place| index.sample_at(class, place)).collect();
        assert_eq!(samples, by_label[label], "class {label}");
        assert_eq!(index.class_of(*label), Some(class));
    }
}

#[test]
fn an_index_has_the_samples_of_every_class_in_ascending_order() {
    assert_index(&[]);
    assert_index(&[i64::MIN]);
    assert_index(&[i64::MAX, i64::MIN, 0, -1, i64::MAX]);
    assert_index(&[i64::MAX, i64::MAX - 1, i64::MAX - 1]);
    assert_index(&(0..20_000).map(|sample| sample * sample % 97 - 50).collect::<Vec<_>>());
    assert_index(&(0..20_000).map(|sample: i64| sample.wrapping_mul(0x1234_5678_9abc_def1) >> 3).collect::<Vec<_>>());
    assert_index(&(0..20_000).map(|sample: i64| (sample % 1000) << 40).collect::<Vec<_>>());
    let nothing = index(&[]);
    assert!(nothing.is_empty() && nothing.classes().is_empty() && nothing.class_of(0).is_none());
    assert_eq!(index(&[4, 4]).class_of(5), None);
}

#[test]
fn an_index_takes_four_bytes_a_sample_and_twelve_a_class() {
    let index = index(&(0..30_000).map(|sample| sample % 10).collect::<Vec<_>>());
    assert_eq!(index.bytes(), 4 * 30_000 + 12 * 10 + 4);
}

#[test]
fn labels_that_change_while_they_are_read_are_refused() {
    for spread in [1, 1 << 40] {
        let mut reads = 0;
        let made = ClassIndex::read(4, |_, into| {
            reads += 1;
            into.copy_from_slice(if reads < 3 { &[0, 1, 1, 1] } else { &[0, 0, 1, 1] });
            into.iter_mut().for_each(|label| *label *= spread);
            Ok(())
        });
        assert!(refused(made).contains("labels: they changed while they were being read"));
        let mut reads = 0;
        let made = ClassIndex::read(4, |_, into| {
            reads += 1;
            into.fill(if reads < 3 { 0 } else { spread });
            Ok(())
        });
        assert!(refused(made).contains("they changed"));
    }
}

#[test]
fn class_samplers_satisfy_the_contract_and_visit_samples_once() {
    let labels = labels_of(&[1, 300, 20, 7]);
    let index = index(&labels);
    for classes in [vec![], vec![0], vec![1], vec![2, 3], vec![3, 1, 0, 2]] {
        for shuffling in [Shuffling::Off, Shuffling::Seeded(7)] {
            let sampler = ClassSampler::new(Arc::clone(&index), classes.clone(), shuffling).unwrap();
            sampler_conformance(&sampler, labels.len());
            let order = sampler.order(2).unwrap();
            let read: Vec<usize> = (0..order.len()).map(|position| order.index_at(position)).collect();
            let expected: Vec<usize> = classes
                .iter()
                .flat_map(|&class| (0..index.count(class)).map(|place| (class, place)).collect::<Vec<_>>())
                .map(|(class, place)| index.sample_at(class, place))
                .collect();
            if shuffling == Shuffling::Off {
                assert_eq!(read, expected);
            } else {
                assert!(read.len() < 20 || read != expected);
                assert_eq!(read.iter().collect::<HashSet<_>>(), expected.iter().collect::<HashSet<_>>());
                assert_eq!(read.len(), expected.len());
            }
        }
    }
    assert!(
        refused(ClassSampler::new(Arc::clone(&index), vec![4], Shuffling::Off))
            .contains("expected classes from 0 to below 4, got 4")
    );
    assert!(refused(ClassSampler::new(index, vec![2, 0, 2], Shuffling::Off)).contains("each class once, got 1 twice"));
}

#[test]
fn equal_classes_are_shuffled_differently() {
    let index = index(&(0..2000).map(|sample| sample % 2).collect::<Vec<_>>());
    let orders = [0, 1].map(|class| {
        let sampler = ClassSampler::new(Arc::clone(&index), vec![class], Shuffling::Seeded(7)).unwrap();
        let order = sampler.order(0).unwrap();
        (0..1000).map(|position| order.index_at(position) / 2).collect::<Vec<_>>()
    });
    let agreeing = orders[0].iter().zip(&orders[1]).filter(|(one, other)| one == other).count();
    assert!(agreeing < 10, "{agreeing} of 1000 positions agree");
}

/// Asserts the guarantees of balanced batches, for all batches of an epoch.
fn assert_balanced(
    counts: &[usize],
    classes_per_batch: usize,
    samples_per_class: usize,
    epoch: u64,
    num_batches: usize,
) {
    let labels = labels_of(counts);
    let sampler = BalancedBatchSampler::new(
        index(&labels),
        classes_per_batch,
        samples_per_class,
        NonZeroUsize::new(num_batches),
        u64::MAX - 7,
    );
    let read = batches(&sampler.unwrap(), epoch);
    assert_eq!(read.len(), num_batches);
    let mut visits = HashMap::<i64, usize>::new();
    let mut reads = vec![0; labels.len()];
    for (number, batch) in read.iter().enumerate() {
        let what = format!("batch {number} of {classes_per_batch} times {samples_per_class} out of {counts:?}");
        assert_eq!(batch.len(), classes_per_batch * samples_per_class, "{what}");
        let mut classes = HashSet::new();
        for samples in batch.chunks(samples_per_class) {
            let label = labels[samples[0]];
            assert!(classes.insert(label), "{what}: class {label} twice");
            assert!(samples.iter().all(|&sample| labels[sample] == label), "{what}: a mixed class");
            *visits.entry(label).or_default() += 1;
            let mut in_batch = HashMap::<usize, usize>::new();
            samples.iter().for_each(|&sample| *in_batch.entry(sample).or_default() += 1);
            let count = counts[(label + 5) as usize / 3];
            let most = samples_per_class.div_ceil(count);
            assert!(in_batch.values().all(|&times| times <= most), "{what}: a sample too often");
            assert!(in_batch.len() == count.min(samples_per_class), "{what}: a sample too seldom");
        }
        samples_seen(batch, &mut reads);
        // At every moment, not only at the end.
        let (least, most) =
            spread((0..counts.len() as i64).map(|class| visits.get(&(3 * class - 5)).copied().unwrap_or(0)));
        assert!(most - least <= 1, "{what}: classes came {least} to {most} times");
        for class in 0..counts.len() as i64 {
            let of_class = labels.iter().zip(&reads).filter(|(label, _)| **label == 3 * class - 5);
            let (least, most) = spread(of_class.map(|(_, &times)| times));
            assert!(most - least <= 1, "{what}: samples of class {class} came {least} to {most} times");
        }
    }
}

fn samples_seen(batch: &[usize], reads: &mut [usize]) {
    batch.iter().for_each(|&sample| reads[sample] += 1);
}

fn spread(numbers: impl Iterator<Item = usize>) -> (usize, usize) {
    numbers.fold((usize::MAX, 0), |(least, most), number| (least.min(number), most.max(number)))
}

#[test]
fn balanced_batches_visit_classes_and_samples_evenly() {
    assert_balanced(&[1], 1, 1, 0, 5);
    assert_balanced(&[1, 1], 1, 3, 0, 9);
    assert_balanced(&[5, 5, 5], 2, 2, 1, 40);
    assert_balanced(&[5, 1, 17, 2, 9], 4, 3, 2, 60);
    assert_balanced(&[300, 1, 40, 7, 700, 3, 2], 3, 8, 3, 120);
    assert_balanced(&[4; 31], 15, 2, 0, 80);
    assert_balanced(&[4; 31], 16, 2, 0, 80);
    assert_balanced(&[2; 300], 7, 2, 0, 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn balanced_batches_of_any_shape(
        counts in prop::collection::vec(1_usize..30, 1..14),
        classes in 0_usize..14,
        samples in 1_usize..40,
        epoch in 0_u64..4,
    ) {
        assert_balanced(&counts, classes % counts.len() + 1, samples, epoch, 50);
    }

    #[test]
    fn an_index_of_any_labels(labels in prop::collection::vec(prop_oneof![any::<i64>(), -3_i64..3], 0..200)) {
        assert_index(&labels);
    }

    #[test]
    fn stratified_batches_of_any_shape(
        counts in prop::collection::vec(1_usize..60, 1..25),
        batch_size in 1_usize..70,
        epoch in 0_u64..4,
    ) {
        assert_stratified(&counts, batch_size, epoch);
    }

    #[test]
    fn length_bucket_batches_of_any_shape(
        lengths in prop::collection::vec(0_i64..50, 0..300),
        samples in 1_usize..20,
        tokens in 50_usize..300,
        window in 1_usize..100,
        seed in any::<u64>(),
    ) {
        for limit in [BatchLimit::Samples(samples), BatchLimit::Tokens(tokens)] {
            assert_like_length(&lengths, limit, window, Shuffling::Seeded(seed));
            assert_like_length(&lengths, limit, window, Shuffling::Off);
        }
    }
}

#[test]
fn balanced_batches_number_as_many_as_the_samples_fill() {
    let index = index(&labels_of(&[10, 20, 7]));
    let sampler = BalancedBatchSampler::new(Arc::clone(&index), 2, 3, None, 7).unwrap();
    assert_eq!(batches(&sampler, 0).len(), 37 / 6);
    batching_sampler_conformance(&sampler, 37);
    let message = refused(BalancedBatchSampler::new(Arc::clone(&index), 4, 3, None, 7));
    assert!(message.contains("classes_per_batch: expected 1 to 3, the number of classes, but got 4"), "{message}");
    let message = refused(BalancedBatchSampler::new(index, 2, 0, None, 7));
    assert!(message.contains("samples_per_class"), "{message}");
}

#[test]
fn all_pairs_of_classes_meet_in_balanced_batches() {
    let index = index(&labels_of(&[4; 12]));
    let sampler = BalancedBatchSampler::new(Arc::clone(&index), 3, 1, NonZeroUsize::new(4000), 7).unwrap();
    let labels = labels_of(&[4; 12]);
    let mut meetings = HashMap::<(i64, i64), usize>::new();
    for batch in batches(&sampler, 0) {
        for &one in &batch {
            for &other in &batch {
                *meetings.entry((labels[one], labels[other])).or_default() += 1;
            }
        }
    }
    // 4000 * 3 * 2 / (12 * 11) for each ordered pair, and five standard deviations of chance.
    for (&(one, other), &times) in meetings.iter().filter(|((one, other), _)| one != other) {
        assert!(times.abs_diff(182) < 70, "{one} and {other} met {times} times");
    }
    assert_eq!(meetings.len(), 144);
}

fn assert_stratified(counts: &[usize], batch_size: usize, epoch: u64) {
    let labels = labels_of(counts);
    let len = labels.len();
    let kept = StratifiedBatchSampler::new(index(&labels), batch_size, LastBatch::Keep, 7).unwrap();
    let read = batches(&kept, epoch);
    assert_eq!(read.len(), len.div_ceil(batch_size));
    for (number, batch) in read.iter().enumerate() {
        assert_eq!(batch.len(), batch_size.min(len - number * batch_size));
        let mut found = vec![0; counts.len()];
        batch.iter().for_each(|&sample| found[(labels[sample] + 5) as usize / 3] += 1);
        for (&found, &count) in found.iter().zip(counts) {
            let (share, exact) = (batch.len() * count / len, (batch.len() * count).is_multiple_of(len));
            let what = format!("{found} of a class of {count} in batch {number} of {batch_size} out of {counts:?}");
            assert!(found == share || (found == share + 1 && !exact), "{what}");
        }
    }
    let mut all = read.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..len));
    let dropped = StratifiedBatchSampler::new(index(&labels), batch_size, LastBatch::Drop, 7).unwrap();
    assert_eq!(batches(&dropped, epoch), read[..len / batch_size]);
}

#[test]
fn stratified_batches_have_the_proportions_of_the_dataset() {
    assert_stratified(&[], 4, 0);
    assert_stratified(&[1], 4, 0);
    assert_stratified(&[1; 100], 7, 1);
    assert_stratified(&[900, 90, 9, 1], 10, 0);
    assert_stratified(&[500, 500], 3, 2);
    assert_stratified(&[333, 333, 334, 1, 1], 256, 0);
    assert_stratified(&[20; 50], 16, 5);
    let sampler = StratifiedBatchSampler::new(index(&labels_of(&[30, 50, 3])), 8, LastBatch::Keep, 7).unwrap();
    batching_sampler_conformance(&sampler, 83);
    let message = refused(StratifiedBatchSampler::new(index(&[]), 0, LastBatch::Keep, 7));
    assert!(message.contains("batch_size should be a positive integer value, but got batch_size=0"), "{message}");
}

#[test]
fn stratified_batches_mix_classes_differently() {
    let labels = labels_of(&[100; 40]);
    let sampler = StratifiedBatchSampler::new(index(&labels), 10, LastBatch::Keep, 7).unwrap();
    let mut meetings = HashMap::<(i64, i64), usize>::new();
    for batch in batches(&sampler, 0) {
        for &one in &batch {
            for &other in &batch {
                *meetings.entry((labels[one], labels[other])).or_default() += 1;
            }
        }
    }
    // 400 * 10 * 9 / (40 * 39) for each ordered pair, 23, if all were drawn by chance.
    let apart: Vec<usize> = meetings.iter().filter(|((one, other), _)| one != other).map(|(_, &times)| times).collect();
    assert!(apart.len() > 1400, "{} of 1560 pairs met", apart.len());
    assert!(apart.iter().all(|&times| times < 70), "{apart:?}");
}

#[test]
fn stratified_batches_drop_different_samples_each_epoch() {
    let labels = labels_of(&[3, 4, 4]);
    let sampler = StratifiedBatchSampler::new(index(&labels), 4, LastBatch::Drop, 7).unwrap();
    let mut left_out = HashSet::new();
    for epoch in 0..60 {
        let read: HashSet<usize> = batches(&sampler, epoch).concat().into_iter().collect();
        assert_eq!(read.len(), 8);
        left_out.extend((0..11).filter(|sample| !read.contains(sample)));
    }
    assert_eq!(left_out.len(), 11);
}

fn assert_like_length(lengths: &[i64], limit: BatchLimit, window: usize, shuffling: Shuffling) {
    let make = |last_batch| LengthBucketBatchSampler::new(lengths, limit, window, last_batch, shuffling).unwrap();
    let read = batches(&make(LastBatch::Keep), 3);
    let mut all = read.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..lengths.len()));
    let over = |samples: usize, longest: i64| match limit {
        BatchLimit::Samples(limit) => samples > limit,
        BatchLimit::Tokens(limit) => samples * longest.max(1) as usize > limit,
    };
    let longest = |batch: &[usize]| batch.iter().map(|&sample| lengths[sample]).max().unwrap();
    assert!(read.iter().all(|batch| !over(batch.len(), longest(batch))));
    // Dropping omits one batch, which must be one that had room.
    let dropped: HashSet<Vec<usize>> = batches(&make(LastBatch::Drop), 3).into_iter().collect();
    let missing: Vec<&Vec<usize>> = read.iter().filter(|batch| !dropped.contains(*batch)).collect();
    assert!(missing.len() <= 1 && missing.iter().all(|batch| !over(batch.len() + 1, longest(batch))));
    assert_eq!(dropped.len() + missing.len(), read.len());
}

fn padding(read: &[Vec<usize>], lengths: &[i64]) -> f64 {
    let padded: i64 =
        read.iter().map(|batch| batch.len() as i64 * batch.iter().map(|&sample| lengths[sample]).max().unwrap()).sum();
    1.0 - lengths.iter().sum::<i64>() as f64 / padded as f64
}

#[test]
fn length_bucket_batches_have_little_padding_and_are_random() {
    let order = TorchGenerator::new(5).randperm(20_000).unwrap();
    let lengths: Vec<i64> = order.iter().map(|&place| 5 + (place % 500) as i64).collect();
    for limit in [BatchLimit::Samples(32), BatchLimit::Tokens(8192)] {
        let make =
            |shuffling| LengthBucketBatchSampler::new(&lengths, limit, 3200, LastBatch::Keep, shuffling).unwrap();
        let shuffled = batches(&make(Shuffling::Seeded(7)), 0);
        assert!(padding(&shuffled, &lengths) < 0.03, "{limit:?}: {}", padding(&shuffled, &lengths));
        assert!(padding(&batches(&make(Shuffling::Off), 0), &lengths) < 0.01);
        let again: HashSet<Vec<usize>> = batches(&make(Shuffling::Seeded(7)), 1).into_iter().collect();
        assert!(shuffled.iter().all(|batch| !again.contains(batch)), "two epochs share a batch");
        // The batches are not ordered by length.
        let means: Vec<i64> = shuffled.iter().map(|batch| lengths[batch[0]]).collect();
        let rises = means.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!(rises.abs_diff(means.len() / 2) < means.len() / 8, "{rises} of {} rise", means.len());
        let offset_shuffling = batches(&make(Shuffling::Off), 0);
        assert!(offset_shuffling.windows(2).all(|pair| lengths[pair[0][0]] >= lengths[pair[1][0]]));
        batching_sampler_conformance(&make(Shuffling::Seeded(7)), lengths.len());
    }
}

#[test]
fn a_sample_that_no_batch_can_hold_is_named() {
    let refusal = |lengths: &[i64], limit, window| {
        refused(LengthBucketBatchSampler::new(lengths, limit, window, LastBatch::Keep, Shuffling::Off))
    };
    let message = refusal(&[3, 11, 4], BatchLimit::Tokens(10), 5);
    assert!(message.contains("sample 1 has the length 11, but a batch may have at most 10 (max_tokens)"), "{message}");
    assert!(refusal(&[3, -1], BatchLimit::Samples(2), 5).contains("sample 1 has a negative length, -1"));
    assert!(refusal(&[3], BatchLimit::Samples(0), 5).contains("batch_size: expected a positive integer"));
    assert!(refusal(&[3], BatchLimit::Samples(1), 0).contains("window: expected a positive integer"));
}

#[test]
fn the_orders_of_these_samplers_never_change() {
    let index = index(&labels_of(&[40, 1, 300, 8]));
    let classes = ClassSampler::new(Arc::clone(&index), vec![2, 0], Shuffling::Seeded(7)).unwrap();
    let order = classes.order(1).unwrap();
    let first: Vec<usize> = (0..8).map(|position| order.index_at(position)).collect();
    assert_eq!(first, [185, 9, 339, 288, 286, 292, 333, 170]);
    let balanced = BalancedBatchSampler::new(Arc::clone(&index), 3, 4, None, 7).unwrap();
    assert_eq!(batches(&balanced, 1)[3], [39, 39, 39, 39, 193, 137, 55, 198, 327, 301, 129, 104]);
    let stratified = StratifiedBatchSampler::new(index, 12, LastBatch::Keep, 7).unwrap();
    assert_eq!(batches(&stratified, 1)[3], [197, 237, 241, 103, 209, 110, 177, 342, 126, 314, 225, 214]);
    let lengths: Vec<i64> = (0..349).map(|sample| sample * sample % 61).collect();
    let (limit, shuffling) = (BatchLimit::Tokens(400), Shuffling::Seeded(7));
    let like = LengthBucketBatchSampler::new(&lengths, limit, 100, LastBatch::Keep, shuffling).unwrap();
    assert_eq!(batches(&like, 1)[3], [153, 274, 91, 257, 170, 318, 337, 90]);
}
