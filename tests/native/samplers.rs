//! The samplers of samples: their orders.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate::internal::ShardPosition;
use sluicegate::{
    BlockShuffleSampler, DistributedSampler, EpochOrder, Permutation, RandomSampler, Remainder, RepeatSampler, Sampler,
    SequentialSampler, Shard, SubsetRandomSampler, WeightedRandomSampler,
};

use crate::conformance::{self, sampler_conformance};

fn indices(sampler: &dyn Sampler, epoch: u64) -> Vec<usize> {
    let order = sampler.order(epoch).expect("the order can be made");
    (0..order.len()).map(|position| order.index_at(position)).collect()
}

fn sorted(mut indices: Vec<usize>) -> Vec<usize> {
    indices.sort_unstable();
    indices
}

fn refusal(order: sluicegate::Result<impl Sized>) -> String {
    match order {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that blocks of positions give the same indices as single positions.
fn blocks_agree(order: &dyn EpochOrder) {
    let expected: Vec<usize> = (0..order.len()).map(|position| order.index_at(position)).collect();
    conformance::blocks_agree(order, &expected);
}

fn samplers(len: usize) -> Vec<(Box<dyn Sampler>, usize)> {
    let random = || Arc::new(RandomSampler::new(len, 7));
    let weights = || (0..len).map(|index| 1.0 + (index % 5) as f32);
    let mut samplers: Vec<(Box<dyn Sampler>, usize)> = vec![
        (Box::new(SequentialSampler::new(len)), len),
        (Box::new(RandomSampler::new(len, 7)), len),
        (Box::new(SubsetRandomSampler::new((0..len).rev(), 7)), len),
        (Box::new(DistributedSampler::new(random(), Shard::new(1, 3).unwrap(), Remainder::Pad)), len),
        (Box::new(BlockShuffleSampler::new(len, 7, 3, 7).unwrap()), len),
        (Box::new(RepeatSampler::passes(random(), 3)), len),
        (Box::new(RepeatSampler::in_a_row(random(), 3)), len),
    ];
    if len > 0 {
        let more = RandomSampler::new(len, 7).with_num_samples(2 * len + 1);
        samplers.push((Box::new(more.clone()), len));
        samplers.push((Box::new(more.with_replacement()), len));
        samplers.push((Box::new(WeightedRandomSampler::new(weights(), 2 * len, 7).unwrap()), len));
        samplers.push((Box::new(WeightedRandomSampler::without_replacement(weights(), len, 7).unwrap()), len));
    }
    samplers
}

#[test]
fn every_sampler_keeps_the_contract() {
    for len in [0, 1, 2, 10, 255, 256, 257, 1000] {
        for (sampler, indices) in samplers(len) {
            sampler_conformance(&*sampler, indices);
        }
    }
}

#[test]
fn blocks_of_positions_are_what_single_positions_are() {
    for len in [0, 1, 2, 16, 255, 256, 257, 1024, 1025, 5000] {
        for (sampler, _) in samplers(len) {
            for epoch in 0..2 {
                blocks_agree(&*sampler.order(epoch).unwrap());
            }
        }
    }
}

#[test]
fn an_order_that_was_tabulated_is_the_permutation() {
    for len in [256_usize, 65_535, 65_536, 65_537, 1_000_003, (1 << 30) + 1, u32::MAX as usize, 1 << 32, (1 << 32) + 1]
    {
        let order = RandomSampler::new(len, 9).order(4).unwrap();
        let permutation = Permutation::new(len as u64, 9, 4);
        let mut read = vec![0; 20_000.min(len)];
        for _ in 0..5 {
            order.indices(0, &mut read);
        }
        assert!(
            read.iter().enumerate().all(|(position, &index)| index as u64 == permutation.index_at(position as u64))
        );
        let step = len / read.len();
        order.indices_by(0, step, &mut read);
        let expected = (0..read.len()).map(|place| permutation.index_at((place * step) as u64) as usize);
        assert!(read.iter().copied().eq(expected), "{len}");
    }
}

#[test]
#[should_panic(expected = "positions from 990 by 1 of an order of 1000 indices")]
fn a_block_past_the_end_is_refused() {
    RandomSampler::new(1000, 7).order(0).unwrap().indices(990, &mut [0; 11]);
}

#[test]
fn num_samples_beyond_the_dataset_are_whole_orders_and_the_beginning_of_one() {
    let drawn = indices(&RandomSampler::new(300, 7).with_num_samples(1000), 2);
    assert_eq!(drawn[..300], indices(&RandomSampler::new(300, 7), 2), "the first is the order of the epoch");
    for pass in 0..3 {
        assert!(sorted(drawn[300 * pass..300 * (pass + 1)].to_vec()).into_iter().eq(0..300));
    }
    assert_ne!(drawn[..300], drawn[300..600]);
    assert_ne!(drawn[300..600], drawn[600..900]);
    let mut last = sorted(drawn[900..].to_vec());
    last.dedup();
    assert_eq!(last.len(), 100);
    assert_eq!(indices(&RandomSampler::new(300, 7).with_num_samples(10), 2), drawn[..10]);
}

#[test]
fn draws_with_replacement_are_uniform() {
    let draws = RandomSampler::new(10, 7).with_num_samples(100_000).with_replacement();
    let mut counts = [0_u32; 10];
    indices(&draws, 0).into_iter().for_each(|index| counts[index] += 1);
    // Each is 10,000, plus or minus 95; the bounds are five times that.
    assert!(counts.iter().all(|count| (9525..=10_475).contains(count)), "{counts:?}");
    assert_ne!(indices(&draws, 0), indices(&draws, 1));
}

#[test]
fn an_empty_dataset_cannot_be_sampled() {
    let message = refusal(RandomSampler::new(0, 7).with_num_samples(3).order(0));
    assert!(message.contains("can't draw 3 samples"), "{message}");
}

#[test]
fn lengths_up_to_the_largest_are_reached() {
    let longest = usize::MAX >> 1;
    let samplers: [&dyn Sampler; 4] = [
        &RandomSampler::new(longest, u64::MAX),
        &RandomSampler::new(3, 7).with_num_samples(longest),
        &BlockShuffleSampler::new(longest, 1 << 20, 1 << 10, 7).unwrap(),
        &DistributedSampler::new(Arc::new(RandomSampler::new(longest, 7)), Shard::new(2, 3).unwrap(), Remainder::Pad),
    ];
    for sampler in samplers {
        let order = sampler.order(u64::MAX).unwrap();
        let last = order.index_at(order.len() - 1);
        assert!(last < longest);
        let mut read = [0; 3];
        order.indices(order.len() - 3, &mut read);
        assert_eq!(read[2], last);
    }
}

#[test]
fn a_subset_keeps_indices_of_any_size() {
    let wide = [5, 1 << 40, 7, usize::MAX, 5];
    assert_eq!(sorted(indices(&SubsetRandomSampler::new(wide, 7), 0)), sorted(wide.to_vec()));
}

#[test]
fn repetitions_are_passes_or_in_a_row() {
    let once = Arc::new(RandomSampler::new(50, 7));
    let passes = indices(&RepeatSampler::passes(once.clone(), 3), 2);
    let expected: Vec<usize> = (6..9).flat_map(|epoch| indices(&*once, epoch)).collect();
    assert_eq!(passes, expected);
    let rows = indices(&RepeatSampler::in_a_row(once.clone(), 3), 2);
    assert!(
        rows.chunks(3)
            .map(|row| (row.len(), row[0], row[1], row[2]))
            .eq(indices(&*once, 2).into_iter().map(|index| (3, index, index, index)))
    );
    for repeated in [RepeatSampler::passes(once.clone(), 3), RepeatSampler::in_a_row(once.clone(), 3)] {
        let whole = indices(&repeated, 2);
        for num_samples in [0, 1, 50, 77, 150, 200] {
            let cut = repeated.clone().with_num_samples(num_samples);
            assert_eq!(indices(&cut, 2), whole[..num_samples.min(150)]);
            blocks_agree(&*cut.order(2).unwrap());
        }
    }
    assert!(indices(&RepeatSampler::passes(once.clone(), 0), 0).is_empty());
    let late = refusal(RepeatSampler::passes(once, 3).order(u64::MAX / 2));
    assert!(late.contains("passes are counted up to 2^64"), "{late}");
}

#[test]
fn empty_blocks_and_windows_are_refused() {
    assert!(refusal(BlockShuffleSampler::new(10, 0, 1, 7)).contains("block should be a positive integer value"));
    assert!(refusal(BlockShuffleSampler::new(10, 1, 0, 7)).contains("window should be a positive integer value"));
    assert!(
        refusal(BlockShuffleSampler::with_blocks([10], 0, 7)).contains("window should be a positive integer value")
    );
    let endless = BlockShuffleSampler::with_blocks([usize::MAX, 1], 1, 7);
    assert!(refusal(endless).contains("the blocks have more samples than can be counted"));
}

#[test]
fn blocks_of_one_size_are_the_same_however_they_are_given() {
    for (len, block) in [(0_usize, 3_usize), (1, 3), (10, 3), (12, 3), (1000, 1), (1001, 7), (5, 9)] {
        let sizes = (0..len.div_ceil(block)).map(|number| block.min(len - number * block));
        // Empty blocks are skipped.
        let sizes = sizes.flat_map(|size| [0, size]);
        for (window, epoch) in [(1, 0), (3, 5), (1000, 1)] {
            let arithmetic = BlockShuffleSampler::new(len, block, window, 7).unwrap();
            let given = BlockShuffleSampler::with_blocks(sizes.clone(), window, 7).unwrap();
            assert_eq!(indices(&given, epoch), indices(&arithmetic, epoch));
            assert!(len < block || given.identity() == arithmetic.identity());
        }
    }
}

#[test]
fn uneven_block_descriptions_include_the_blocks() {
    let of = |sizes: &[usize]| BlockShuffleSampler::with_blocks(sizes.iter().copied(), 2, 7).unwrap().identity();
    assert_ne!(of(&[1, 2, 3]), of(&[2, 1, 3]));
    assert_ne!(of(&[1, 2, 3]), of(&[1, 5]));
    assert_eq!(of(&[1, 2, 3]), of(&[0, 1, 2, 0, 3]));
}

#[test]
fn blocks_may_be_huge_and_many() {
    let half = usize::MAX / 2;
    let order = BlockShuffleSampler::with_blocks([half, half - 5, 6], 1, 7).unwrap().order(0).unwrap();
    let found = [0, 1, half, order.len() - 1].map(|position| order.index_at(position));
    assert!(found.iter().all(|&index| index < order.len()) && found[0] != found[1]);
    let many = BlockShuffleSampler::with_blocks((0..1_000_000).map(|block| block % 3), 100, 7).unwrap();
    let order = many.order(3).unwrap();
    assert_eq!(order.len(), 999_999);
    let mut read = vec![0; order.len()];
    order.indices(0, &mut read);
    assert!((0..order.len()).step_by(9973).all(|position| order.index_at(position) == read[position]));
    assert!(sorted(read).into_iter().eq(0..999_999));
}

proptest! {
    #[test]
    fn block_shuffle_reads_every_sample_once_and_whole_blocks(
        len in 0_usize..3000, block in 1_usize..70, window in 1_usize..20, seed: u64, epoch in 0_u64..4,
    ) {
        let sampler = BlockShuffleSampler::new(len, block, window, seed)?;
        let read = indices(&sampler, epoch);
        prop_assert!(sorted(read.clone()).into_iter().eq(0..len));
        blocks_agree(&*sampler.order(epoch)?);
        // A window's blocks are read to their end before another window's blocks begin.
        let mut start = 0;
        let mut windows = 0;
        while start < len {
            let mut left = std::collections::BTreeMap::new();
            let mut position = start;
            while position < len && (left.len() < window || left.contains_key(&(read[position] / block))) {
                let number = read[position] / block;
                let size = block.min(len - number * block);
                *left.entry(number).or_insert(size) -= 1;
                position += 1;
                if left.values().all(|left| *left == 0) && left.len() == window {
                    break;
                }
            }
            prop_assert!(left.values().all(|left| *left == 0), "window {} of {:?}", windows, left);
            start = position;
            windows += 1;
        }
        prop_assert_eq!(windows, len.div_ceil(block).div_ceil(window));
    }

    #[test]
    fn blocks_of_any_sizes_are_read_once_and_window_by_window(
        sizes in proptest::collection::vec(prop_oneof![0_usize..5, 0_usize..90], 0..60), window in 1_usize..20, seed: u64,
        epoch in 0_u64..4,
    ) {
        let sampler = BlockShuffleSampler::with_blocks(sizes.iter().copied(), window, seed)?;
        let (read, len) = (indices(&sampler, epoch), sizes.iter().sum::<usize>());
        prop_assert!(sorted(read.clone()).into_iter().eq(0..len));
        blocks_agree(&*sampler.order(epoch)?);
        let starts: Vec<usize> = (0..sizes.len()).map(|block| sizes[..block].iter().sum()).collect();
        // Empty blocks begin where the next one does, so the last block that begins there contains the sample.
        let block_of = |index: usize| starts.partition_point(|&start| start <= index) - 1;
        let (mut rest, mut seen) = (&read[..], 0);
        while !rest.is_empty() {
            // As many samples as the blocks of a window have, all of them from those blocks.
            let mut of_window = std::collections::BTreeSet::new();
            let mut samples = 0;
            for &index in rest {
                if of_window.len() < window && of_window.insert(block_of(index)) {
                    samples += sizes[block_of(index)];
                }
            }
            let (now, later) = rest.split_at(samples);
            prop_assert!(now.iter().all(|&index| of_window.contains(&block_of(index))));
            prop_assert!(later.iter().all(|&index| !of_window.contains(&block_of(index))));
            (rest, seen) = (later, seen + of_window.len());
        }
        prop_assert_eq!(seen, sizes.iter().filter(|size| **size > 0).count());
    }

    #[test]
    fn ranks_share_the_order(len in 0_usize..300, world_size in 1_usize..9) {
        let all: Arc<dyn Sampler> = Arc::new(RandomSampler::new(len, 7));
        let order = indices(&*all, 1);
        for remainder in [Remainder::Pad, Remainder::Drop, Remainder::Exact] {
            for rank in 0..world_size {
                let shard = Shard::new(rank, world_size)?;
                let sampler = DistributedSampler::new(Arc::clone(&all), shard, remainder);
                let expected = (0..).map_while(|local| shard.position_at(local, len, remainder));
                prop_assert!(indices(&sampler, 1).into_iter().eq(expected.map(ShardPosition::position).map(|p| order[p])));
                blocks_agree(&*sampler.order(1)?);
            }
        }
    }
}
