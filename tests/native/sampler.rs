//! Samplers: their orders, and batches of them.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::{
    BatchSampler, EpochBatches, EpochOrder, Error, LastBatch, Permutation, RandomSampler, Result, Sampler,
    SequentialSampler, TorchGenerator, TorchRandomSampler,
};

use crate::conformance::sampler_conformance;
use crate::fingerprint::fingerprint;

fn indices(sampler: &dyn Sampler, epoch: u64) -> Vec<usize> {
    let order = sampler.order(epoch).expect("the order can be made");
    (0..order.len()).map(|position| order.index_at(position)).collect()
}

#[test]
fn every_sampler_keeps_the_contract() {
    for len in [0, 1, 2, 10, 1000] {
        sampler_conformance(&SequentialSampler::new(len), len);
        sampler_conformance(&RandomSampler::new(len, 7), len);
        sampler_conformance(&TorchRandomSampler::new(len, 7), len);
    }
}

#[test]
fn every_sampler_gives_every_index_once() {
    for len in [0, 1, 2, 10, 1000] {
        let samplers: [&dyn Sampler; 3] =
            [&SequentialSampler::new(len), &RandomSampler::new(len, 7), &TorchRandomSampler::new(len, 7)];
        for sampler in samplers {
            let mut sorted = indices(sampler, 3);
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..len));
        }
    }
}

#[test]
fn the_sequential_sampler_counts() {
    assert_eq!(indices(&SequentialSampler::new(5), 2), [0, 1, 2, 3, 4]);
}

#[test]
fn the_random_sampler_gives_the_permutation_of_its_seed_and_epoch() {
    for epoch in 0..3 {
        let permutation = Permutation::new(1000, 7, epoch);
        let expected = (0..1000).map(|position| permutation.index_at(position) as usize);
        assert!(indices(&RandomSampler::new(1000, 7), epoch).into_iter().eq(expected));
    }
    let longest = RandomSampler::new(usize::MAX, 7).order(0).expect("it takes no memory");
    assert!(longest.index_at(usize::MAX - 1) < longest.len());
}

#[test]
fn the_torch_random_sampler_gives_the_passes_of_torch() {
    let passes = [
        [6, 0, 3, 7, 8, 5, 1, 9, 2, 4],
        [0, 9, 6, 1, 7, 2, 5, 3, 4, 8],
        [3, 8, 1, 7, 5, 9, 6, 0, 2, 4],
        [4, 5, 7, 9, 8, 2, 6, 3, 0, 1],
        [9, 2, 7, 6, 0, 3, 1, 4, 5, 8],
        [8, 5, 2, 9, 4, 0, 3, 7, 6, 1],
    ];
    let longer = [
        0x8f0a_1421_8ca7_b920,
        0xa205_9092_5fb3_c9dd,
        0x9ec4_e215_91b2_e6a8,
        0x044f_8118_b1e5_2a6a,
        0x27fb_b4ae_54cc_597b,
        0x2c57_b43e_9164_efa2,
    ];
    let (ten, thousand) = (TorchRandomSampler::new(10, 3), TorchRandomSampler::new(1000, (1 << 32) + 3));
    // Out of sequence: an epoch before the furthest one starts from the seed again.
    for epoch in [0, 1, 4, 2, 5, 3, 0] {
        assert_eq!(indices(&ten, epoch as u64), passes[epoch]);
        let order = indices(&thousand, epoch as u64);
        assert_eq!(fingerprint(order.into_iter().map(|index| index as u64)), longer[epoch], "epoch {epoch}");
    }
}

#[test]
fn a_far_epoch_of_torch_is_reached_without_shuffling_those_before() {
    let mut generator = TorchGenerator::new(9);
    for _ in 0..2 * 50 {
        generator.randperm(3000).expect("there is memory for it");
    }
    let expected = generator.randperm(3000).expect("there is memory for it");
    assert_eq!(indices(&TorchRandomSampler::new(3000, 9), 50), expected);
}

fn refusal(sampler: &dyn Sampler, epoch: u64) -> String {
    match sampler.order(epoch) {
        Ok(order) => panic!("an order of {} indices", order.len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_torch_random_sampler_reports_unreachable_epochs() {
    let far = refusal(&TorchRandomSampler::new(1000, 0), u64::MAX / 2);
    assert!(far.contains("epoch 9223372036854775807 of 1000 samples"), "{far}");
    let long = refusal(&TorchRandomSampler::new(usize::MAX, 0), 0);
    assert!(long.contains("no memory for an order of"), "{long}");
}

fn batches(len: usize, batch_size: usize, last_batch: LastBatch) -> Vec<Vec<usize>> {
    let sampler = BatchSampler::new(Arc::new(SequentialSampler::new(len)), batch_size, last_batch);
    let order = sampler.expect("the batch size is positive").order(0).expect("the order can be made");
    let mut reused = vec![99];
    (0..order.len())
        .map(|batch_in_epoch| {
            order.indices(batch_in_epoch, &mut reused);
            reused.clone()
        })
        .collect()
}

#[test]
fn batches_are_cut_as_torch_cuts_them() {
    assert_eq!(batches(5, 2, LastBatch::Keep), [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!(batches(5, 2, LastBatch::Drop), [vec![0, 1], vec![2, 3]]);
    assert_eq!(batches(4, 2, LastBatch::Keep), batches(4, 2, LastBatch::Drop));
    assert_eq!(batches(2, usize::MAX, LastBatch::Keep), [vec![0, 1]]);
    assert!(batches(2, 3, LastBatch::Drop).is_empty());
    assert!(batches(0, 3, LastBatch::Keep).is_empty());
}

#[test]
fn a_batch_size_of_zero_is_refused_like_in_torch() {
    let Err(error) = BatchSampler::new(Arc::new(SequentialSampler::new(5)), 0, LastBatch::Keep) else {
        panic!("batches of nothing");
    };
    assert!(matches!(error, Error::InvalidArgument { argument: "batch_size", .. }));
    let message = error.to_string();
    assert!(message.contains("batch_size should be a positive integer value, but got batch_size=0"), "{message}");
}

#[test]
#[should_panic(expected = "batch 3 of an epoch of 3 batches")]
fn a_batch_past_the_end_is_refused() {
    let sampler = BatchSampler::new(Arc::new(SequentialSampler::new(5)), 2, LastBatch::Keep);
    let order = sampler.and_then(|sampler| sampler.order(0)).expect("the order can be made");
    order.indices(3, &mut Vec::new());
}

#[test]
fn the_error_of_a_sampler_comes_through() {
    struct FailingSampler;
    impl Sampler for FailingSampler {
        fn order(&self, _epoch: u64) -> Result<Box<dyn EpochOrder>> {
            Err(Error::User("the list of samples is gone".into()))
        }
    }
    let sampler = BatchSampler::new(Arc::new(FailingSampler), 2, LastBatch::Keep).expect("the batch size is positive");
    let Err(error) = sampler.order(0) else {
        panic!("an order from nowhere");
    };
    assert_eq!(error.to_string(), "the list of samples is gone");
}

proptest! {
    #[test]
    fn batches_together_are_the_order(len in 0_usize..500, batch_size in 1_usize..60, epoch in 0_u64..5) {
        let sampler = RandomSampler::new(len, 7);
        let expected = indices(&sampler, epoch);
        for last_batch in [LastBatch::Keep, LastBatch::Drop] {
            let order = BatchSampler::new(Arc::new(sampler.clone()), batch_size, last_batch)?.order(epoch)?;
            let mut read = Vec::new();
            let mut batch = Vec::new();
            for batch_in_epoch in 0..order.len() {
                order.indices(batch_in_epoch, &mut batch);
                prop_assert!(batch.len() == batch_size || batch_in_epoch + 1 == order.len());
                prop_assert!(order.positions(batch_in_epoch).len() == batch.len());
                read.extend_from_slice(&batch);
            }
            let kept = match last_batch {
                LastBatch::Keep => len,
                LastBatch::Drop => len - len % batch_size,
            };
            prop_assert_eq!(&read[..], &expected[..kept]);
        }
    }
}
