//! Mixtures: proportions, stopping rules, schedules.

use proptest::prelude::*;
use sluicegate::{EpochOrder, MixtureSampler, MixtureWeights, Sampler, StopCriteria};

use crate::conformance::sampler_conformance;

const STOPS: [StopCriteria; 4] = [
    StopCriteria::CycleUntilAllDatasetsExhausted,
    StopCriteria::AllDatasetsExhausted,
    StopCriteria::FirstDatasetExhausted,
    StopCriteria::CycleForever(700),
];

fn indices(order: &dyn EpochOrder) -> Vec<usize> {
    let mut indices = vec![0; order.len()];
    order.indices(0, &mut indices);
    indices
}

fn counts(indices: &[usize], lens: &[usize]) -> Vec<usize> {
    let mut counts = vec![0; lens.len()];
    for &index in indices {
        let mut end = 0;
        let part = lens.iter().position(|len| {
            end += len;
            index < end
        });
        counts[part.expect("the index is in some part")] += 1;
    }
    counts
}

#[test]
fn a_mixture_keeps_the_contract() {
    for stop in STOPS {
        for weights in [vec![1.0, 1.0, 1.0], vec![0.01, 5.0, 2.0]] {
            let sampler = MixtureSampler::new(&[100, 7, 400], &MixtureWeights::constant(weights), stop, 7).unwrap();
            sampler_conformance(&sampler, 507);
        }
    }
}

#[test]
fn stop_criteria_match_torchdata() {
    let lens = [100, 10];
    let made = |stop| {
        let sampler = MixtureSampler::new(&lens, &MixtureWeights::constant([1.0, 1.0]), stop, 7).unwrap();
        (indices(&*sampler.order(3).unwrap()), sampler.samples_per_part())
    };
    let (cycled, per_part) = made(StopCriteria::CycleUntilAllDatasetsExhausted);
    assert_eq!(counts(&cycled, &lens), per_part);
    assert_eq!(per_part[0], 100);
    assert!((99..=101).contains(&per_part[1]));
    // Ten passes over the small part, each of them complete.
    for index in 100..110 {
        assert!((9..=11).contains(&cycled.iter().filter(|read| **read == index).count()));
    }
    let (mut once, _) = made(StopCriteria::AllDatasetsExhausted);
    assert_eq!(counts(&once[..20], &lens).iter().sum::<usize>(), 20);
    once.sort_unstable();
    assert!(once.into_iter().eq(0..110));
    let (first, per_part) = made(StopCriteria::FirstDatasetExhausted);
    assert_eq!(per_part[1], 10);
    assert!((9..=11).contains(&per_part[0]));
    assert_eq!(first.len(), per_part.iter().sum::<usize>());
    assert_eq!(made(StopCriteria::CycleForever(12_345)).0.len(), 12_345);
}

#[test]
fn proportions_hold_in_every_stretch_and_the_positions_vary() {
    let lens = [1_000_000, 1000, 50];
    let weights = MixtureWeights::constant([0.9, 0.0999, 0.0001]);
    let sampler = MixtureSampler::new(&lens, &weights, StopCriteria::CycleForever(1_000_000), 7).unwrap();
    let (one, other) = (indices(&*sampler.order(0).unwrap()), indices(&*sampler.order(1).unwrap()));
    assert_ne!(one, other);
    for start in (0..1_000_000 - 10_000).step_by(4999) {
        let found = counts(&one[start..start + 10_000], &lens);
        assert!(found[0].abs_diff(9000) < 80 && found[1].abs_diff(999) < 80 && found[2] <= 3, "{found:?} from {start}");
    }
    assert!(counts(&one, &lens)[2].abs_diff(100) <= 1);
    let is_small = |index: &&usize| (1_000_000..1_001_000).contains(*index);
    let places = |order: &[usize]| {
        order.iter().enumerate().filter(|(_, index)| is_small(index)).map(|(p, _)| p).collect::<Vec<_>>()
    };
    assert_ne!(places(&one), places(&other));
    // A cycle of a part has each of its samples once.
    let mut cycle: Vec<usize> = one.iter().filter(is_small).copied().take(1000).collect();
    cycle.sort_unstable();
    cycle.dedup();
    assert!(cycle.len() > 900, "blocks may borrow from the next cycle, {} different ones", cycle.len());
}

#[test]
fn schedules_step_or_interpolate() {
    let lens = [50_000, 50_000];
    let breakpoints = vec![(0, vec![1.0, 0.0]), (10_000, vec![0.0, 1.0])];
    let read = |weights| {
        let sampler = MixtureSampler::new(&lens, &weights, StopCriteria::CycleForever(20_000), 7).unwrap();
        indices(&*sampler.order(0).unwrap())
    };
    let stepped = read(MixtureWeights::stepped(breakpoints.clone()));
    assert_eq!(counts(&stepped[..10_000], &lens), [10_000, 0]);
    assert_eq!(counts(&stepped[10_000..], &lens), [0, 10_000]);
    let ramp = read(MixtureWeights::linear(breakpoints));
    for tenth in 0..10 {
        let found = counts(&ramp[1000 * tenth..1000 * (tenth + 1)], &lens)[1];
        assert!(found.abs_diff(100 * tenth + 50) <= 3, "{found} in tenth {tenth}");
    }
    assert_eq!(counts(&ramp[10_000..], &lens), [0, 10_000]);
}

#[test]
fn endless_or_invalid_mixtures_are_refused() {
    let refusal = |lens: &[usize], breakpoints: Vec<(usize, Vec<f64>)>, stop| match MixtureSampler::new(
        lens,
        &MixtureWeights::stepped(breakpoints),
        stop,
        7,
    ) {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    };
    let all = StopCriteria::AllDatasetsExhausted;
    let waits = refusal(&[5, 9], vec![(0, vec![1.0, 1.0]), (4, vec![1.0, 0.0])], StopCriteria::default());
    assert!(waits.contains("never end: part 1 has 9 samples, but its weight allows only 2"), "{waits}");
    assert!(refusal(&[5, 9], vec![(0, vec![0.0, 1.0])], all).contains("never end: part 0"));
    assert!(refusal(&[5, 0], vec![(0, vec![1.0, 1.0])], all).contains("part 1 has no samples"));
    assert!(refusal(&[5], vec![(0, vec![1.0, 1.0])], all).contains("got 2 at position 0 for 1 parts"));
    assert!(
        refusal(&[5], vec![(0, vec![-1.0])], all)
            .contains("the weight of part 0 must be finite and not negative, got -1")
    );
    assert!(refusal(&[5], vec![(0, vec![0.0])], all).contains("must have a positive, finite sum"));
    assert!(refusal(&[5], vec![(3, vec![1.0]), (3, vec![1.0])], all).contains("got 3 after 3"));
    assert!(refusal(&[], vec![(0, vec![])], all).contains("at least one part"));
    // A part whose weight comes too late is never read: the others are finished.
    let late = MixtureWeights::stepped(vec![(0, vec![1.0, 0.0]), (100, vec![0.0, 1.0])]);
    let sampler = MixtureSampler::new(&[5, 9], &late, all, 7).unwrap();
    assert_eq!(sampler.samples_per_part(), [5, 9]);
}

proptest! {
    #[test]
    fn positions_and_blocks_agree_and_counts_are_what_was_planned(
        parts in prop::collection::vec((1_usize..300, 0.001_f64..10.0), 1..6), stop in 0_usize..4, cut in 0_usize..3000,
        change in 1_usize..2000, linear: bool,
    ) {
        let (lens, weights): (Vec<usize>, Vec<f64>) = parts.into_iter().unzip();
        let breakpoints = vec![(0, weights.iter().rev().copied().collect()), (change, weights)];
        let weights = if linear { MixtureWeights::linear(breakpoints) } else { MixtureWeights::stepped(breakpoints) };
        let sampler = MixtureSampler::new(&lens, &weights, STOPS[stop], 7)?;
        let sampler = sampler.with_num_samples(cut);
        let order = sampler.order(1)?;
        let read = indices(&*order);
        prop_assert!(read.len() <= cut);
        prop_assert!((0..order.len()).map(|position| order.index_at(position)).eq(read.iter().copied()));
        prop_assert_eq!(counts(&read, &lens), sampler.samples_per_part());
        if STOPS[stop] == StopCriteria::AllDatasetsExhausted {
            let mut once = read.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), read.len());
        }
        let mut by_three = vec![0; read.len().div_ceil(3)];
        order.indices_by(0, 3, &mut by_three);
        prop_assert!(by_three.into_iter().eq(read.into_iter().step_by(3)));
    }
}
