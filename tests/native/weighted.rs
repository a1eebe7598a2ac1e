//! Weighted draws: their distribution, and what is rejected.

use sluicegate::{Sampler, WeightedRandomSampler};

fn indices(sampler: &WeightedRandomSampler, epoch: u64) -> Vec<usize> {
    let order = sampler.order(epoch).expect("the order can be made");
    let mut indices = vec![0; order.len()];
    order.indices(0, &mut indices);
    indices
}

/// Returns the sum of (found - expected)^2 / expected, which is about the number of classes if the distribution is
/// right.
fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let term = |(&count, &probability): (&u64, &f64)| {
        let expected = probability * total as f64;
        if probability == 0.0 {
            if count == 0 { 0.0 } else { f64::INFINITY }
        } else {
            (count as f64 - expected).powi(2) / expected
        }
    };
    counts.iter().zip(probabilities).map(term).sum()
}

/// Returns a bound that a sum of that many classes exceeds about once in a million times.
fn limit(classes: usize) -> f64 {
    let freedom = classes as f64;
    freedom + 5.0 * (2.0 * freedom).sqrt() + 25.0
}

fn weights_of_every_kind() -> Vec<Vec<f64>> {
    vec![
        vec![3.0],
        vec![0.0, 1.0, 0.0],
        vec![1.0; 7],
        vec![1.0, 2.0, 3.0, 4.0],
        vec![4.0, 3.0, 2.0, 1.0],
        vec![1e-300, 1e-300, 2e-300],
        vec![1e300, 1e300, 2e300],
        vec![0.1; 100],
        (0..1000).map(|index| f64::from(index % 10)).collect(),
        (0..1000).map(|index| 1.0 / f64::from(index + 1)).collect(),
        (0..500).map(|index| if index == 250 { 1000.0 } else { 1.0 }).collect(),
        (0..500).map(|index| if index % 2 == 0 { 1.5 } else { 0.5 }).collect(),
    ]
}

#[test]
fn draws_with_replacement_follow_the_weights() {
    for weights in weights_of_every_kind() {
        let total: f64 = weights.iter().sum();
        let probabilities: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let sampler = WeightedRandomSampler::new(weights.iter().copied(), 400_000, 7).unwrap();
        let mut counts = vec![0; weights.len()];
        indices(&sampler, 0).into_iter().for_each(|index| counts[index] += 1);
        let found = chi_square(&counts, &probabilities);
        assert!(
            found < limit(weights.len()),
            "{found} for {} weights {:?}",
            weights.len(),
            &weights[..4.min(weights.len())]
        );
    }
}

#[test]
fn draws_without_replacement_follow_the_weights_of_what_is_left() {
    let weights = [1.0, 2.0, 0.0, 4.0, 8.0];
    let law = |drawn: &[usize]| {
        let mut left: f64 = weights.iter().sum();
        drawn.iter().fold(1.0, |probability, &index| {
            let step = weights[index] / left;
            left -= weights[index];
            probability * step
        })
    };
    let sampler = WeightedRandomSampler::without_replacement(weights, 3, 7).unwrap();
    let mut classes = std::collections::BTreeMap::new();
    for epoch in 0..60_000 {
        *classes.entry(indices(&sampler, epoch)).or_insert(0_u64) += 1;
    }
    assert_eq!(classes.len(), 24, "every sequence of three of the four");
    let counts: Vec<u64> = classes.values().copied().collect();
    let probabilities: Vec<f64> = classes.keys().map(|drawn| law(drawn)).collect();
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(chi_square(&counts, &probabilities) < limit(24));
}

#[test]
fn an_order_without_replacement_is_a_permutation_whose_heavy_ones_come_early() {
    let len = 20_000;
    let weights = |index: usize| if index.is_multiple_of(10) { 100.0 } else { 1.0 };
    let sampler = WeightedRandomSampler::without_replacement((0..len).map(weights), len, 3).unwrap();
    let order = indices(&sampler, 1);
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..len));
    // Half of the light ones' arrivals are after nearly all of the heavy ones: rate 1 against rate 100.
    let late_heavy = order[len / 2..].iter().filter(|index| *index % 10 == 0).count();
    assert_eq!(late_heavy, 0);
    // The race at the end is fair among equal weights, too.
    let last: Vec<usize> = order[len - 2000..].iter().copied().filter(|index| index % 10 != 0).collect();
    let mean = last.iter().sum::<usize>() as f64 / last.len() as f64;
    assert!(
        (mean - len as f64 / 2.0).abs() < 5.0 * len as f64 / 12.0_f64.sqrt() / (last.len() as f64).sqrt(),
        "{mean}"
    );
}

#[test]
fn zero_weights_are_never_drawn_at_any_size() {
    let len = 300_000;
    let weights = |index: usize| if index.is_multiple_of(3) { 0.0 } else { 1.0 + (index % 7) as f64 * 1e-9 };
    let weights = || (0..len).map(weights);
    for sampler in [
        WeightedRandomSampler::new(weights(), len / 2, 7),
        WeightedRandomSampler::without_replacement(weights(), len / 2, 7),
    ] {
        assert!(indices(&sampler.unwrap(), 0).into_iter().all(|index| index % 3 != 0));
    }
}

#[test]
fn invalid_weights_are_refused() {
    let refusal = |weights: &[f64]| match WeightedRandomSampler::new(weights.iter().copied(), 1, 7) {
        Ok(_) => panic!("{weights:?} were accepted"),
        Err(error) => error.to_string(),
    };
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let message = refusal(&[1.0, bad]);
        assert!(
            message.contains(&format!("the weight of index 1 must be finite and not negative, got {bad}")),
            "{message}"
        );
    }
    assert!(refusal(&[0.0, 0.0, -0.0]).contains("all 3 weights are zero"));
    assert!(refusal(&[]).contains("at least one weight"));
    assert!(refusal(&[1e308; 4]).contains("divide all of them by the largest"));
    let message = WeightedRandomSampler::without_replacement([1.0, 0.0, 2.0], 3, 7).unwrap_err().to_string();
    assert!(
        message.contains("can't draw 3 samples without replacement: only 2 of 3 weights are positive"),
        "{message}"
    );
}
